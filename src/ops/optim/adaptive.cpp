// RMSProp, AdaGrad and AdaDelta. g gradient, v1 mean square, v2 mean (centered RMSProp) or mean square step (AdaDelta).
//   RMSPropUpdater: x = g / (sqrt(v1 - v2²) + eps) (v2 absent: 0); tf_variant: eps inside the root
//   AdaDeltaUpdater: x = g sqrt(v2 + eps) / sqrt(v1 + eps)
//   ScaledVarUpdate: w := w - lr (x + wd w); an absent lr counts as 1 (momentum of the TensorFlow variant)
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/optim/update_formula.hpp"
#include "ops/optim/var_update.hpp"

namespace popart::ops {
namespace {

OpDef updaterRow(const char *type, Arity second) {
  OpDef row("ai.graphcore", type, {1});
  row.input("gradient", kFloats).input("accl1", kFloats).input("accl2", kFloats, "", second).output("updater");
  scalarParameter(row, "epsilon");
  row.infer([](InferContext &c) {
    requireScalarParameter(c, 3, "epsilon", Presence::Required);
    inferUpdate(c, {1, 2});
  });
  row.traits(Trait::Elementwise).cost(perElement(6)).noGrad("optimizer arithmetic is not differentiable").notOnnx();
  return row;
}

}  // namespace

OpDefs adaptiveOps() {
  OpDefs rows;
  rows.push_back(updaterRow("RMSPropUpdater", Arity::Optional)
                     .attr("tf_variant", int64_t{0})
                     .decompose([](DecomposeBuilder &b) {
                       UpdateFormula u(b);
                       const Expression eps = u.value(u.factor(3, "epsilon")), mean = b.hasIn(2) ? u.operand(2) : eps;
                       const Expression variance = b.hasIn(2) ? u.operand(1) - mean * mean : u.operand(1);
                       const bool inside = b.attrs().getAttribute<int64_t>("tf_variant") != 0;
                       u.result(u.operand(0) / (inside ? sqrt(variance + eps) : sqrt(variance) + eps));
                     })
                     .doc("g / (sqrt(v1 - v2²) + eps); with tf_variant g / sqrt(v1 - v2² + eps)."));
  rows.push_back(updaterRow("AdaDeltaUpdater", Arity::Required)
                     .decompose([](DecomposeBuilder &b) {
                       UpdateFormula u(b);
                       const Expression eps = u.value(u.factor(3, "epsilon"));
                       u.result(u.operand(0) * sqrt(u.operand(2) + eps) / sqrt(u.operand(1) + eps));
                     })
                     .doc("g sqrt(v2 + eps) / sqrt(v1 + eps)."));
  OpDef row = elementUpdateRow("ScaledVarUpdate");
  row.input("updater", kFloats);
  dueInput(scalarParameter(scalarParameter(row, "lr"), "wd"));
  rows.push_back(row.infer([](InferContext &c) {
                      requireScalarParameter(c, 2, "lr", Presence::Optional);
                      requireScalarParameter(c, 3, "wd", Presence::Optional);
                      inferUpdate(c, {1});
                    })
                     .decompose([](DecomposeBuilder &b) {
                       UpdateFormula u(b);
                       const auto decay = u.factor(3, "wd");
                       const Expression w = u.operand(0), x = u.operand(1);
                       u.result(w - u.times(u.factor(2, "lr", 1.0), decay.isNumber(0) ? x : x + u.times(decay, w)));
                     })
                     .doc("w := w - lr (x + wd w)."));
  return rows;
}

}  // namespace popart::ops
