// Element-wise functions of two arguments with NumPy broadcasting, and their gradients. The row of the gradient of
// argument k is "<Op>Arg<k>Grad": it multiplies the incoming gradient by the partial derivative at the broadcast shape,
// and sums over the axes along which that argument was broadcast (attribute fwd_shape). Integer Div and Fmod truncate
// toward zero; an integer divided by 0, or a quotient that does not fit its type, ends the run.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

using E = Expression;

// The forward values that the gradient of one argument reads.
struct BinaryReads {
  bool a = false;
  bool b = false;
  bool y = false;
};
// The partial derivative times g, at the broadcast shape; v holds the forward values that are read, in the order a, b,
// y.
using PartialFormula = E (*)(E g, const std::vector<E> &v);

OpDef binaryRow(const char *domain, const char *type, std::vector<OpVersion> versions, TypeSet types) {
  return OpDef(domain, type, std::move(versions))
      .input("a", types, "T")
      .input("b", types, "T")
      .output("y")
      .infer(inferBroadcast)
      .traits(Trait::Elementwise)
      .inplace(std::string(type) + "LhsInplace", 10, 0)
      .inplace(std::string(type) + "RhsInplace", 10, 1);
}

// If the gradient does not read a forward argument, that argument may be anything that gives the result's shape: the
// gradient's info is used for it.
void inferPartial(InferContext &c, const std::string &forward, int argument, BinaryReads reads) {
  const TensorInfo dx = forwardInfo(c);
  int next = 1;
  const TensorInfo a = reads.a ? c.in(next++) : argument == 0 ? dx : c.in(0);
  const TensorInfo b = reads.b ? c.in(next++) : argument == 1 ? dx : c.in(0);
  const Shape &own = (argument == 0 ? a : b).shape();
  c.require(own == dx.shape(), "fwd_shape is not the shape of argument {}: got {}, expected {}", argument, dx.shape(),
            own);
  const ForwardOp op(c, forward, {a, b});
  op.gives(0, 0);
  if (reads.y) op.gives(0, next);
  c.out(0, dx);
}

// The row of the gradient of one argument.
OpDef partialRow(const std::string &forward, int argument, BinaryReads reads, PartialFormula formula) {
  OpDef row("ai.graphcore", forward + "Arg" + std::to_string(argument) + "Grad", {1});
  row.input("grad", kNumeric);
  if (reads.a) row.input("a", kNumeric);
  if (reads.b) row.input("b", kNumeric);
  if (reads.y) row.input("y", kNumeric);
  row.output("dx")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .infer([forward, argument, reads](InferContext &c) { inferPartial(c, forward, argument, reads); })
      .traits(Trait::Gradient)
      .pieces(alignedPieces)
      .notOnnx();
  return row.decompose([formula](DecomposeBuilder &b) {
    std::vector<E> values;
    for (int i = 1; i < b.op().inputCount(); ++i) {
      TensorIndex v = b.in(i);
      if (b.inInfo(i).dataType() != b.inInfo(0).dataType())
        v = b.emit("Cast", {v}, {{"to", int64_t{toOnnxDataType(b.inInfo(0).dataType())}}});
      values.emplace_back(b, v);
    }
    b.result(0, emitReduceSumTo(b, formula(E(b, b.in(0)), values), b.outInfo(0).shape()));
  });
}

TensorIndex emitPartial(VjpBuilder &b, const std::string &type, BinaryReads reads, int argument) {
  std::vector<TensorIndex> inputs{b.gradOut(0)};
  if (reads.a) inputs.push_back(b.in(0));
  if (reads.b) inputs.push_back(b.in(1));
  if (reads.y) inputs.push_back(b.out(0));
  return b.emit(type, inputs, {{"fwd_shape", b.inInfo(argument).shape()}});
}

// The inputs of PopART's gradient op of an argument, which gradient graphs must have even if the formula here needs
// fewer: those of the formula, or both operands and the result.
enum class Documented { Formula, Everything };

struct Partial {
  BinaryReads reads;
  PartialFormula formula;
  Documented documented = Documented::Formula;
};

void readDocumented(VjpBuilder &b, Documented documented) {
  if (documented == Documented::Formula) return;
  b.in(0), b.in(1), b.out(0);
}

// Adds the row with gradients for both arguments. An exponent of integer type gets no gradient.
void addDifferentiable(OpDefs &rows, OpDef row, Partial first, Partial second) {
  const std::string type = row.type();
  row.vjp([type, first, second](VjpBuilder &b) {
    if (b.wants(0)) {
      readDocumented(b, first.documented);
      b.grad(0, emitPartial(b, type + "Arg0Grad", first.reads, 0));
    }
    if (b.wants(1) && b.inInfo(1).dataType() == b.outInfo(0).dataType()) {
      readDocumented(b, second.documented);
      b.grad(1, emitPartial(b, type + "Arg1Grad", second.reads, 1));
    }
  });
  rows.push_back(std::move(row));
  rows.push_back(
      partialRow(type, 0, first.reads, first.formula).doc("Gradient of " + type + " for its first argument."));
  rows.push_back(
      partialRow(type, 1, second.reads, second.formula).doc("Gradient of " + type + " for its second argument."));
}

E passOn(E g, const std::vector<E> &) { return g; }

void addArithmetic(OpDefs &rows) {
  addDifferentiable(rows,
                    binaryRow("ai.onnx", "Add", {6, 7, 13, 14}, kNumeric)
                        .precision(Precision::Follows)
                        .role(Role::Add)
                        .traits(Trait::Commutative)
                        .doc("a + b."),
                    {{}, passOn}, {{}, passOn});
  addDifferentiable(
      rows,
      binaryRow("ai.onnx", "Sub", {6, 7, 13, 14}, kNumeric).precision(Precision::Follows).role(Role::Sub).doc("a - b."),
      {{}, passOn},
      {{},
       [](E g, const std::vector<E> &) { return isFloatingPoint(g.type()) ? -g : 0.0 - g; },
       Documented::Everything});
  addDifferentiable(rows,
                    binaryRow("ai.onnx", "Mul", {6, 7, 13, 14}, kNumeric)
                        .precision(Precision::Follows)
                        .role(Role::Mul)
                        .traits(Trait::Commutative)
                        .doc("a b."),
                    {{.b = true}, [](E g, const std::vector<E> &v) { return g * v[0]; }, Documented::Everything},
                    {{.a = true}, [](E g, const std::vector<E> &v) { return g * v[0]; }, Documented::Everything});
  addDifferentiable(rows,
                    binaryRow("ai.onnx", "Div", {6, 7, 13, 14}, kNumeric)
                        .precision(Precision::Follows)
                        .doc("a / b; integers truncate toward zero."),
                    {{.b = true}, [](E g, const std::vector<E> &v) { return g / v[0]; }, Documented::Everything},
                    {{.a = true, .b = true},
                     [](E g, const std::vector<E> &v) { return -(g * v[0] / (v[1] * v[1])); },
                     Documented::Everything});
}

// d(a^b)/da = b a^(b-1), 0 for b = 0 (so that 0^0 has gradient 0 and not 0 * inf).
E powBase(E g, const std::vector<E> &v) {
  E a = v[0], b = v[1];
  return select(b.apply("Equal", b.number(0)), g.number(0), g * b * a.apply("Pow", b - 1.0));
}

// d(a^b)/db = a^b log a, 0 for a = 0 and b >= 0.
E powExponent(E g, const std::vector<E> &v) {
  E a = v[0], b = v[1], y = v[2];
  E atZero = a.apply("Equal", a.number(0)) && (b >= 0.0);
  return select(atZero, g.number(0), g * y * a.apply("Log"));
}

void addPow(OpDefs &rows) {
  OpDef row = OpDef("ai.onnx", "Pow", {1, 7, 12, 13, 15})
                  .input("a", kNumeric)
                  .input("b", kNumeric)
                  .slots(Slot::Setting, {1})
                  .output("y")
                  .infer(inferBroadcast)
                  .traits(Trait::Elementwise)
                  .inplace("PowLhsInplace", 10, 0)
                  .doc("a^b with the type of a.");
  addDifferentiable(rows, std::move(row), {{.a = true, .b = true}, powBase, Documented::Everything},
                    {{.a = true, .b = true, .y = true}, powExponent});
}

// Both are a - b n with a whole number n, so the derivative by b is -n = -(a - y) / b.
E wholeQuotient(E g, const std::vector<E> &v) { return -(g * (v[0] - v[2]) / v[1]); }

void addRemainders(OpDefs &rows) {
  const Partial byDivisor{{.a = true, .b = true, .y = true}, wholeQuotient};
  addDifferentiable(rows, binaryRow("ai.graphcore", "Fmod", {1}, kNumeric).doc("a - b trunc(a / b): the sign of a."),
                    {{}, passOn, Documented::Everything}, byDivisor);
  addDifferentiable(rows,
                    binaryRow("ai.graphcore", "Remainder", {1}, kNumeric).doc("a - b floor(a / b): the sign of b."),
                    {{}, passOn}, byDivisor);
}

void addAtan2(OpDefs &rows) {
  // In atan2(y, x), a is y and b is x.
  addDifferentiable(rows, binaryRow("ai.graphcore", "Atan2", {1}, kFloats).doc("Angle of the point (b, a)."),
                    {{.a = true, .b = true},
                     [](E g, const std::vector<E> &v) { return g * v[1] / (v[0] * v[0] + v[1] * v[1]); },
                     Documented::Everything},
                    {{.a = true, .b = true},
                     [](E g, const std::vector<E> &v) { return -(g * v[0] / (v[0] * v[0] + v[1] * v[1])); },
                     Documented::Everything});
}

void addPRelu(OpDefs &rows) {
  OpDef row = OpDef("ai.onnx", "PRelu", {7, 9, 16})
                  .input("x", kNumeric, "T")
                  .input("slope", kNumeric, "T")
                  .slots(Slot::Parameter, {1})
                  .output("y")
                  .infer([](InferContext &c) {
                    c.require(npBroadcastable(c.shape(0), c.shape(1)) && npOut(c.shape(0), c.shape(1)) == c.shape(0),
                              "slope does not broadcast to x: got {}, expected a shape that broadcasts to {}",
                              c.shape(1), c.shape(0));
                    c.out(0, c.in(0));
                  })
                  .traits(Trait::Elementwise)
                  .inplace("PReluInplace", 10, 0)
                  .precision(Precision::Follows)
                  .doc("x for x >= 0, else slope x; slope broadcasts to the shape of x.");
  addDifferentiable(
      rows, std::move(row),
      {{.a = true, .b = true}, [](E g, const std::vector<E> &v) { return select(v[0] > 0.0, g, g * v[1]); }},
      {{.a = true}, [](E g, const std::vector<E> &v) { return select(v[0] < 0.0, g * v[0], g.number(0)); }});
}

// scale0 a + scale1 b; the scalars 2 and 3, if connected, replace the attributes.
OpDef scaledAddRow() {
  return OpDef("ai.graphcore", "ScaledAdd", {1})
      .role(Role::ScaledAdd)
      .cost(perElement(3))
      .input("a", kNumeric, "A")
      .input("b", kNumeric, "B")
      .input("scale0", kFloats, "", Arity::Optional)
      .input("scale1", kFloats, "", Arity::Optional)
      .slots(Slot::Setting, {2, 3})
      .output("y")
      .attr("scale0", 1.0f)
      .attr("scale1", 1.0f)
      .infer([](InferContext &c) {
        c.require(c.shape(0) == c.shape(1), "input shapes differ: got {} and {}, expected equal shapes", c.shape(0),
                  c.shape(1));
        c.require(c.type(0) == c.type(1) || (isFloatingPoint(c.type(0)) && isFloatingPoint(c.type(1))),
                  "element types differ: got {} and {}, expected equal ones or floating point. Cast one of them",
                  c.type(0), c.type(1));
        for (int i = 2; i < 4; ++i) {
          c.require(!c.hasIn(i) || c.in(i).nelms() == 1, "a scale has more than one element: got {}, expected a scalar",
                    c.hasIn(i) ? c.shape(i) : Shape{});
        }
        c.out(0, c.in(0));
      })
      .traits(Trait::Elementwise)
      .inplace("ScaledAddLhsInplace", 10, 0)
      .inplace("ScaledAddRhsInplace", 10, 1)
      .stopsGrad()
      .doc("scale0 a + scale1 b for equal shapes, with the type of a; computed in float32 or wider.");
}

}  // namespace

OpDefs binaryOps() {
  OpDefs rows;
  addArithmetic(rows);
  addPow(rows);
  addRemainders(rows);
  addAtan2(rows);
  addPRelu(rows);
  rows.push_back(scaledAddRow());
  return rows;
}

}  // namespace popart::ops
