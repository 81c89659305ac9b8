// RMSProp, AdaGrad and AdaDelta. g gradient, v1 mean square, v2 mean (centered RMSProp) or mean square step (AdaDelta).
//   RMSPropUpdater: x = g / (sqrt(v1 - v2²) + eps) (v2 absent: 0); tf_variant: eps inside the root
//   AdaDeltaUpdater: x = g sqrt(v2 + eps) / sqrt(v1 + eps)
//   ScaledVarUpdate: w := w - lr (x + wd w); an absent lr counts as 1 (momentum of the TensorFlow variant)
#include <popart/op.hpp>

#include "ops/catalog.hpp"
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
  row.noGrad("optimizer arithmetic is not differentiable").notOnnx();
  return row;
}

}  // namespace

OpDefs adaptiveOps() {
  OpDefs rows;
  rows.push_back(updaterRow("RMSPropUpdater", Arity::Optional)
                     .attr("tf_variant", int64_t{0})
                     .doc("g / (sqrt(v1 - v2²) + eps); with tf_variant g / sqrt(v1 - v2² + eps)."));
  rows.push_back(updaterRow("AdaDeltaUpdater", Arity::Required).doc("g sqrt(v2 + eps) / sqrt(v1 + eps)."));
  OpDef row = varUpdateRow("ScaledVarUpdate");
  row.input("updater", kFloats);
  scalarParameter(scalarParameter(row, "lr"), "wd");
  rows.push_back(row.infer([](InferContext &c) {
                      requireScalarParameter(c, 2, "lr", Presence::Optional);
                      requireScalarParameter(c, 3, "wd", Presence::Optional);
                      inferUpdate(c, {1});
                    }).doc("w := w - lr (x + wd w)."));
  return rows;
}

}  // namespace popart::ops
