// Stochastic gradient descent. w is the weight, g the gradient, v the velocity; scalars have the names in the
// optimizer's documentation:
//   SGD0VarUpdate      w := wdsf0 w - slr0 g
//   SGD1AcclUpdate     v := smm1 v + swd1 w                  SGD2PartialAcclUpdate: the same with smm2, swd2
//   SGD1VarUpdate      w := w - slr1 v                       SGD2VarUpdate: the same with slr2
//   SGD1Nesterov       g' = ngsf1 (ils G + wd w) + mm v      (ils = 1 / loss scaling)
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/optim/update_formula.hpp"
#include "ops/optim/var_update.hpp"

namespace popart::ops {
namespace {

void addSgd0(OpDefs &rows) {
  OpDef row = elementUpdateRow("SGD0VarUpdate");
  row.role(Role::SGD0VarUpdate);
  row.input("updater", kFloats);
  dueInput(scalarParameter(scalarParameter(row, "slr0"), "wdsf0"));
  row.infer([](InferContext &c) {
    requireScalarParameter(c, 2, "slr0", Presence::Required);
    requireScalarParameter(c, 3, "wdsf0", Presence::Required);
    inferUpdate(c, {1});
  });
  row.decompose([](DecomposeBuilder &b) {
    UpdateFormula f(b);
    f.result(f.times(f.factor(3, "wdsf0"), f.operand(0)) - f.times(f.factor(2, "slr0"), f.operand(1)));
  });
  rows.push_back(row.doc("w := wdsf0 w - slr0 g."));
}

void addVelocityUpdate(OpDefs &rows, const char *type, const char *momentum, const char *decay) {
  OpDef row = elementUpdateRow(type);
  row.input("weight", kFloats);
  dueInput(scalarParameter(scalarParameter(row, momentum), decay));
  row.infer([momentum, decay](InferContext &c) {
    requireScalarParameter(c, 2, momentum, Presence::Required);
    requireScalarParameter(c, 3, decay, Presence::Required);
    inferUpdate(c, {1});
  });
  row.decompose([momentum, decay](DecomposeBuilder &b) {
    UpdateFormula f(b);
    const auto factor = f.factor(3, decay);
    const Expression kept = f.times(f.factor(2, momentum), f.operand(0));
    f.result(factor.isNumber(0) ? kept : kept + f.times(factor, f.operand(1)));
  });
  rows.push_back(row.doc("v := momentum v + decay w."));
}

void addWeightUpdate(OpDefs &rows, const char *type, const char *rate) {
  OpDef row = elementUpdateRow(type);
  row.input("velocity", kFloats);
  dueInput(scalarParameter(row, rate));
  row.infer([rate](InferContext &c) {
    requireScalarParameter(c, 2, rate, Presence::Required);
    inferUpdate(c, {1});
  });
  row.decompose([rate](DecomposeBuilder &b) {
    UpdateFormula f(b);
    f.result(f.operand(0) - f.times(f.factor(2, rate), f.operand(1)));
  });
  rows.push_back(row.doc("w := w - rate v."));
}

void addNesterov(OpDefs &rows) {
  OpDef row("ai.graphcore", "SGD1Nesterov", {1});
  row.input("gradient", kFloats).input("weight", kFloats).input("velocity", kFloats).output("updater");
  const char *const names[] = {"ils", "wd", "ngsf", "mm"};
  for (const char *name : names) scalarParameter(row, name);
  row.infer([](InferContext &c) {
    requireScalarParameter(c, 3, "ils", Presence::Required);
    requireScalarParameter(c, 4, "wd", Presence::Required);
    requireScalarParameter(c, 5, "ngsf", Presence::Required);
    requireScalarParameter(c, 6, "mm", Presence::Required);
    inferUpdate(c, {1, 2});
  });
  row.decompose([](DecomposeBuilder &b) {
    UpdateFormula f(b);
    const Expression gradient = f.times(f.factor(3, "ils"), f.operand(0)) + f.times(f.factor(4, "wd"), f.operand(1));
    f.result(f.times(f.factor(5, "ngsf"), gradient) + f.times(f.factor(6, "mm"), f.operand(2)));
  });
  rows.push_back(row.traits(Trait::Elementwise)
                     .cost(perElement(6))
                     .noGrad("optimizer arithmetic is not differentiable")
                     .notOnnx()
                     .doc("g' = ngsf (ils G + wd w) + mm v."));
}

}  // namespace

OpDefs sgdOps() {
  OpDefs rows;
  addSgd0(rows);
  addVelocityUpdate(rows, "SGD1AcclUpdate", "smm1", "swd1");
  addVelocityUpdate(rows, "SGD2PartialAcclUpdate", "smm2", "swd2");
  addWeightUpdate(rows, "SGD1VarUpdate", "slr1");
  addWeightUpdate(rows, "SGD2VarUpdate", "slr2");
  addNesterov(rows);
  return rows;
}

}  // namespace popart::ops
