// Pairs of rows for element-wise operators (see unary_rows.hpp).
#include "ops/math/unary_rows.hpp"

#include "ops/forward_op.hpp"

namespace popart::ops {

OpDef unaryRow(const std::string &domain, const std::string &type, std::vector<OpVersion> versions, TypeSet types) {
  return OpDef(domain, type, std::move(versions))
      .input("x", types, "T")
      .output("y")
      .traits(Trait::Elementwise)
      .inplace(type + "Inplace", 10);
}

void addDifferentiable(OpDefs &rows, OpDef row, Reads reads, GradientFormula formula) {
  const std::string gradient = row.type() + "Grad";
  row.vjp([gradient, reads](VjpBuilder &b) {
    if (reads == Reads::Nothing) return b.grad(0, b.emit(gradient, {b.gradOut(0)}, b.attrs()));
    b.grad(0, b.emit(gradient, {b.gradOut(0), reads == Reads::Input ? b.in(0) : b.out(0)}, b.attrs()));
  });
  OpDef grad("ai.graphcore", gradient, {1});
  grad.input("grad", kNumeric, "T");
  if (reads != Reads::Nothing) grad.input(reads == Reads::Input ? "x" : "y", kNumeric, "T");
  grad.output("dx").traits(Trait::Elementwise | Trait::Gradient).notOnnx().doc("Gradient of " + row.type() + ".");
  grad.infer([type = row.type(), reads](InferContext &c) {
    const ForwardOp forward(c, type, {reads == Reads::Input ? c.in(1) : c.in(0)});
    forward.gives(0, 0);
    if (reads == Reads::Output) forward.gives(0, 1);
    c.out(0, c.in(0));
  });
  for (const AttributeDef &a : row.attributes()) {
    if (!a.defaultValue.empty())
      grad.attr(a.name, a.defaultValue.front());
    else if (a.required)
      grad.attrRequired(a.name, a.type);
    else
      grad.attrOptional(a.name, a.type);
  }
  grad.decompose([reads, formula](DecomposeBuilder &b) {
    Expression g(b, b.in(0));
    b.result(0, formula(g, reads == Reads::Nothing ? g : Expression(b, b.in(1)), b.attrs()));
  });
  rows.push_back(std::move(row));
  rows.push_back(std::move(grad));
}

}  // namespace popart::ops
