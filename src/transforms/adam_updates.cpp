// Update ops of the Adam family and of the adaptive optimizers (formulas:
// docs/compat/optimizers.md).
#include <popart/adam.hpp>
#include <popart/adaptive.hpp>

#include "transforms/update_emitter.hpp"

namespace popart::transforms {
namespace {

DataType orElse(DataType type, DataType fallback) { return type == DataType::UNDEFINED ? fallback : type; }

TensorIndex accumulate(UpdateEmitter &e, TensorIndex state, TensorIndex value, TensorIndex factor, const char *kind,
                       const TensorId &id) {
  Attributes attributes{{"accumulation_type", std::string(kind)}};
  if (!factor.valid()) attributes.set("factor", 1.0f);
  return e.emitOne("Accumulate", {state, value, factor}, id, attributes);
}

const char *modeName(AdamMode mode) {
  switch (mode) {
    case AdamMode::Adam:
      return "Adam";
    case AdamMode::AdamNoBias:
      return "AdamNoBias";
    case AdamMode::AdaMax:
      return "AdaMax";
    case AdamMode::Lamb:
      return "Lamb";
    case AdamMode::LambNoBias:
      return "LambNoBias";
  }
  throw internal_error("Adam: unknown mode: got {}.", static_cast<int>(mode));
}

}  // namespace

TensorIndex unscaledGradient(UpdateEmitter &e, const Optimizer &optimizer, const WeightUpdate &u, DataType type,
                             WeightDecayMode mode, const std::string &decayScalar) {
  TensorIndex g = e.cast(u.gradient, type, u.id + "_gradient");
  const OptimizerScalar scale = optimizer.scalar("gradientScale", u.id);
  if (!scale.value.isConst() || scale.value.val() != 1.0f)
    g = e.emitOne("Mul", {g, e.cast(e.scalar("gradientScale", u.id), type, u.id + "_gradientScale")},
                  u.id + "_unscaledGradient");
  if (mode == WeightDecayMode::L2Regularization && !decayScalar.empty()) {
    const TensorIndex w = e.cast(u.weight, type, u.id + "_cast"),
                      wd = e.cast(e.scalar(decayScalar, u.id), type, u.id + "_weightDecay");
    g = e.emitOne("Add", {g, e.emitOne("Mul", {w, wd}, u.id + "_decay")}, u.id + "_regularizedGradient");
  }
  return g;
}

void beginAdam(UpdateEmitter &e, const Optimizer &optimizer, WeightUpdate &u) {
  const Adam &adam = static_cast<const Adam &>(optimizer);
  u.gradient = e.accumulated(u, adam.getAccumType());
  check(!adam.useScaledOptimizerState() || adam.lossScaling().isConst(),
        "Adam '{}': scaled optimizer state with a non-constant loss scaling is not supported. Make the loss scaling "
        "constant",
        u.id);
  const DataType type = orElse(adam.getAccl1Type(), e.info(u.weight).dataType());
  u.clippable = unscaledGradient(e, optimizer, u, type, adam.getWeightDecayMode(),
                                 adam.hasWeightDecay(u.id) ? "weightDecay" : "");
}

void finishAdam(UpdateEmitter &e, const Optimizer &optimizer, const WeightUpdate &u) {
  const Adam &adam = static_cast<const Adam &>(optimizer);
  const TensorInfo &w = e.info(u.weight);
  const Shape shape = w.shape();
  const DataType type1 = orElse(adam.getAccl1Type(), w.dataType()), type2 = orElse(adam.getAccl2Type(), w.dataType());
  const TensorIndex accl1 = e.state("Accl1___" + u.id, TensorInfo(type1, shape), 0.0);
  const TensorIndex accl2 = e.state("Accl2___" + u.id, TensorInfo(type2, shape), 0.0);
  const TensorIndex beta1 = e.scalar("adamBeta1", u.id), beta2 = e.scalar("adamBeta2", u.id);
  const TensorIndex m = accumulate(e, accl1, u.clippable, beta1, "MovingAverage", "Accl1Updated___" + u.id);
  const TensorIndex v =
      accumulate(e, accl2, u.clippable, beta2, adam.getMode() == AdamMode::AdaMax ? "Infinity" : "MovingAverageSquare",
                 "Accl2Updated___" + u.id);
  const bool decays = adam.getWeightDecayMode() == WeightDecayMode::Decay && adam.hasWeightDecay(u.id);
  std::vector<TensorIndex> inputs(8);
  inputs[1] = m, inputs[2] = v, inputs[7] = e.scalar("adamEps", u.id);
  if (decays) inputs[0] = u.weight, inputs[4] = e.scalar("weightDecay", u.id);
  std::vector<TensorId> outputs{"AdamUpdater___" + u.id};
  if (adam.usesBiasCorrection()) {
    inputs[3] = e.state("Step___" + u.id, TensorInfo(DataType::FLOAT, {}), 0.0);
    inputs[5] = beta1, inputs[6] = beta2;
    outputs.push_back("StepUpdated___" + u.id);
  }
  const TensorIndex x = e.emit("AdamUpdater", inputs, outputs, {{"mode", std::string(modeName(adam.getMode()))}})[0];
  std::vector<TensorIndex> update{u.weight, x, {}, {}, e.scalar("learningRate", u.id), {}};
  if (adam.isLamb()) {
    update[2] = e.emitOne("LambSquare", {u.weight}, "LambR1Sq___" + u.id);
    update[3] = e.emitOne("LambSquare", {x}, "LambR2Sq___" + u.id);
    update[5] = e.scalar("maxWeightNorm", u.id);
  }
  e.emit("AdamVarUpdate", update, {"UpdatedVar___" + u.id});
}

void beginAdaptive(UpdateEmitter &e, const Optimizer &optimizer, WeightUpdate &u) {
  const Adaptive &adaptive = static_cast<const Adaptive &>(optimizer);
  u.gradient = e.accumulated(u, adaptive.getAccumType());
  const DataType type = orElse(adaptive.getAccl1Type(), e.info(u.weight).dataType());
  u.clippable = unscaledGradient(e, optimizer, u, type, adaptive.getWeightDecayMode(),
                                 adaptive.hasWeightDecay(u.id) ? "weightDecay" : "");
}

void finishAdaptive(UpdateEmitter &e, const Optimizer &optimizer, const WeightUpdate &u) {
  const Adaptive &a = static_cast<const Adaptive &>(optimizer);
  const DataType weightType = e.info(u.weight).dataType();
  const Shape shape = e.info(u.weight).shape();
  // compat: the second accumulator has the first one's type, whatever accl2_type says.
  const TensorInfo info(orElse(a.getAccl1Type(), weightType), shape);
  const AdaptiveMode mode = a.getMode();
  const TensorIndex alpha = mode == AdaptiveMode::AdaGrad ? TensorIndex{} : e.scalar("alpha", u.id),
                    eps = e.scalar("eps", u.id);
  const TensorIndex g = u.clippable;
  const TensorIndex v1 =
      accumulate(e, e.state("Accl1___" + u.id, info, a.isTFVariant() ? 1.0 : 0.0), g, alpha,
                 mode == AdaptiveMode::AdaGrad ? "DampenedAddSquare" : "MovingAverageSquare", "Accl1Updated___" + u.id);
  TensorIndex x;
  if (mode == AdaptiveMode::AdaDelta) {
    const TensorIndex v2 = e.state("Accl2___" + u.id, info, 0.0);
    x = e.emitOne("AdaDeltaUpdater", {g, v1, v2, eps}, "AdaptiveUpdater___" + u.id);
    accumulate(e, v2, x, alpha, "MovingAverageSquare", "Accl2Updated___" + u.id);
  } else {
    TensorIndex v2;
    if (mode == AdaptiveMode::CenteredRMSProp)
      v2 = accumulate(e, e.state("Accl2___" + u.id, info, 0.0), g, alpha, "MovingAverage", "Accl2Updated___" + u.id);
    x = e.emitOne("RMSPropUpdater", {g, v1, v2, eps}, "AdaptiveUpdater___" + u.id,
                  {{"tf_variant", int64_t{a.isTFVariant()}}});
  }
  TensorIndex rate = e.scalar("learningRate", u.id);
  if (a.hasMomentum(u.id)) {
    const TensorIndex v3 = e.state("Accl3___" + u.id, TensorInfo(orElse(a.getAccl3Type(), weightType), shape), 0.0);
    if (a.isTFVariant()) {
      x = e.emitOne("Mul", {x, e.cast(rate, e.info(x).dataType(), u.id + "_learningRate")}, u.id + "_scaledUpdater");
      rate = e.graph().find("unitLearningRate");
      if (!rate.valid()) rate = e.graph().addConstant("unitLearningRate", TensorData::scalar(1.0f));
    }
    x = accumulate(e, v3, x, e.scalar("momentum", u.id), "DecayAdd", "Accl3Updated___" + u.id);
  }
  std::vector<TensorIndex> update{u.weight, x, rate};
  if (a.getWeightDecayMode() == WeightDecayMode::Decay && a.hasWeightDecay(u.id))
    update.push_back(e.scalar("weightDecay", u.id));
  e.emit("ScaledVarUpdate", update, {"UpdatedVar___" + u.id});
}

}  // namespace popart::transforms
