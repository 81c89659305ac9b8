// See var_update.hpp. CopyVarUpdate is the simplest of these rows.
#include "ops/optim/var_update.hpp"

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/optim/update_formula.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

OpDef varUpdateRow(const char *type) {
  OpDef row("ai.graphcore", type, {1});
  row.input("var", kUpdatable)
      .output("updated")
      .traits(Trait::VarUpdate)
      .modifies(0)
      .cost(perElement(3))
      .noGrad("updates of variables are not differentiable")
      .notOnnx();
  return row;
}

OpDef elementUpdateRow(const char *type) { return varUpdateRow(type).traits(Trait::Elementwise); }

OpDef &scalarParameter(OpDef &row, const char *name) {
  return row.input(name, kFloats, "", Arity::Optional).attrOptional(name, AttributeType::Float);
}

void requireScalarParameter(const InferContext &c, int input, const char *name, Presence presence) {
  if (c.hasIn(input)) {
    c.require(c.in(input).nelms() == 1, "{} must be a scalar: got shape {}", name, c.shape(input));
    c.require(!c.hasAttr(name), "{} is given twice: as a tensor and as an attribute. Give one of them", name);
    return;
  }
  c.require(presence == Presence::Optional || c.hasAttr(name), "{} is missing: give the tensor or the attribute", name);
}

OpDef &dueInput(OpDef &row) { return row.input("due", typeBit(DataType::BOOL), "", Arity::Optional); }

int dueInputOf(const OpDef &row) {
  const bool has = !row.inputs().empty() && row.inputs().back().name == "due";
  return has ? static_cast<int>(row.inputs().size()) - 1 : -1;
}

void requireDue(const InferContext &c) {
  const int due = dueInputOf(c.op().def());
  if (due >= 0 && c.hasIn(due)) c.require(c.in(due).nelms() == 1, "due must be a scalar: got shape {}", c.shape(due));
}

TensorIndex whereDue(DecomposeBuilder &b, int output, TensorIndex value) {
  const int due = dueInputOf(b.op().def());
  if (due < 0 || !b.hasIn(due)) return value;
  for (const AliasDef &alias : b.op().def().aliasRules())
    if (alias.modifies && alias.output == output)
      return b.emit("Where", {emitReshape(b, b.in(due), {}), value, b.in(alias.input)});
  return value;
}

void inferUpdate(const InferContext &c, std::initializer_list<int> sameShape) {
  requireDue(c);
  for (int i : sameShape) {
    if (!c.hasIn(i)) continue;
    c.require(c.shape(i) == c.shape(0), "input {} must have the shape of the variable: got {}, expected {}", i,
              c.shape(i), c.shape(0));
  }
  c.out(0, c.in(0));
}

OpDefs copyVarUpdateOps() {
  OpDef row("ai.graphcore", "CopyVarUpdate", {1});
  row.input("var", kStoredTypes).input("updater", kStoredTypes);
  dueInput(row)
      .output("updated")
      .infer([](InferContext &c) {
        requireDue(c);
        c.require(c.in(1) == c.in(0), "the new value differs from the variable: got {}, expected {}", c.in(1), c.in(0));
        c.out(0, c.in(0));
      })
      .traits(Trait::VarUpdate | Trait::Elementwise)
      .modifies(0)
      .cost([](const Op &, Cost &c) {
        c = {0, c.bytesWritten, c.bytesWritten};
      })
      .decompose([](DecomposeBuilder &b) { b.result(0, whereDue(b, 0, b.in(1))); })
      .noGrad("updates of variables are not differentiable")
      .doc("var := updater; var keeps its value if due is false.");
  OpDefs rows;
  rows.push_back(std::move(row));
  return rows;
}

}  // namespace popart::ops
