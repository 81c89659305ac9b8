// Update ops of the Adam family and of the adaptive optimizers (formulas:
// docs/compat/optimizers.md).
#include "transforms/update_emitter.hpp"

namespace popart::transforms {

DataType orElse(DataType type, DataType fallback) { return type == DataType::UNDEFINED ? fallback : type; }

TensorIndex accumulate(UpdateEmitter &e, TensorIndex state, TensorIndex value, TensorIndex factor, const char *kind,
                       const TensorId &id) {
  Attributes attributes{{"accumulation_type", std::string(kind)}};
  if (!factor.valid()) attributes.set("factor", 1.0f);
  return e.emitOne("Accumulate", {state, value, factor}, id, attributes);
}

TensorIndex unscaledGradient(UpdateEmitter &e, const WeightUpdate &u, DataType type) {
  const TensorIndex g = e.cast(u.gradient, type, u.id + "_gradient");
  const OptimizerValue scale = u.rule->scalar("gradientScale").value;
  if (scale.isConst() && scale.val() == 1.0f) return g;
  return e.emitOne("Mul", {g, e.cast(e.scalar("gradientScale", u), type, u.id + "_gradientScale")},
                   u.id + "_unscaledGradient");
}

TensorIndex regularizedGradient(UpdateEmitter &e, const WeightUpdate &u, TensorIndex gradient) {
  const DataType type = e.info(gradient).dataType();
  const TensorIndex w = e.cast(u.weight, type, u.id + "_cast"),
                    wd = e.cast(e.scalar("weightDecay", u), type, u.id + "_weightDecay");
  return e.emitOne("Add", {gradient, e.emitOne("Mul", {w, wd}, u.id + "_decay")}, u.id + "_regularizedGradient");
}

namespace {

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

// Scales both moments by the change of the loss scale: scaled state is in units of the current one.
void rescale(UpdateEmitter &e, const AdamRule &adam, const WeightUpdate &u, TensorIndex &m, TensorIndex &v) {
  if (!adam.scaledState || e.lossScaling().isConst()) return;
  const TensorIndex scale = e.scalar("adamLossScaling", u);
  const TensorIndex former =
      e.state("PreviousLossScaling_" + u.id, TensorInfo(DataType::FLOAT, {}), e.lossScaling().val(), u);
  const TensorIndex change = e.emitOne("Div", {scale, former}, "LossScalingRatio_" + u.id);
  const TensorIndex ofSquares =
      adam.mode == AdamMode::AdaMax ? change : e.emitOne("Mul", {change, change}, u.id + "_squaredLossScalingRatio");
  m = e.emitOne("AccumulatorScale", {m, change}, "Accl1Rescaled___" + u.id);
  v = e.emitOne("AccumulatorScale", {v, ofSquares}, "Accl2Rescaled___" + u.id);
  if (u.isLastPart) e.emit("CopyVarUpdate", {former, scale}, {"PreviousLossScaling_" + u.id + "_updated"});
}

template <class Rule>
void accumulateAndUnscale(UpdateEmitter &e, const Rule &rule, WeightUpdate &u) {
  u.gradient = e.accumulated(u);
  u.clippable = unscaledGradient(e, u, orElse(rule.accl1Type, e.info(u.weight).dataType()));
  if (rule.hasWeightDecay && rule.decayMode == WeightDecayMode::L2Regularization)
    u.clippable = regularizedGradient(e, u, u.clippable);
}

}  // namespace

void beginUpdate(UpdateEmitter &e, const AdamRule &adam, WeightUpdate &u) { accumulateAndUnscale(e, adam, u); }

void finishUpdate(UpdateEmitter &e, const AdamRule &adam, const WeightUpdate &u) {
  const TensorInfo &w = e.info(u.weight);
  const Shape shape = w.shape();
  const DataType type1 = orElse(adam.accl1Type, w.dataType()), type2 = orElse(adam.accl2Type, w.dataType());
  TensorIndex accl1 = e.state("Accl1___" + u.id, TensorInfo(type1, shape), 0.0, u);
  TensorIndex accl2 = e.state("Accl2___" + u.id, TensorInfo(type2, shape), 0.0, u);
  rescale(e, adam, u, accl1, accl2);
  const TensorIndex beta1 = e.scalar("adamBeta1", u), beta2 = e.scalar("adamBeta2", u);
  const TensorIndex m = accumulate(e, accl1, u.clippable, beta1, "MovingAverage", "Accl1Updated___" + u.id);
  const TensorIndex v =
      accumulate(e, accl2, u.clippable, beta2, adam.mode == AdamMode::AdaMax ? "Infinity" : "MovingAverageSquare",
                 "Accl2Updated___" + u.id);
  const bool decays = adam.decayMode == WeightDecayMode::Decay && adam.hasWeightDecay;
  std::vector<TensorIndex> inputs(8);
  inputs[1] = m, inputs[2] = v, inputs[7] = e.scalar("adamEps", u);
  if (decays) inputs[0] = u.weight, inputs[4] = e.scalar("weightDecay", u);
  std::vector<TensorId> outputs{"AdamUpdater___" + u.id};
  if (correctsBias(adam.mode)) {
    inputs[3] = e.state("Step___" + u.id, TensorInfo(DataType::FLOAT, {}), 0.0, u);
    inputs[5] = beta1, inputs[6] = beta2;
    outputs.push_back("StepUpdated___" + u.id);
  }
  const TensorIndex x = e.emit("AdamUpdater", inputs, outputs, {{"mode", std::string(modeName(adam.mode))}})[0];
  std::vector<TensorIndex> update{u.weight, x, {}, {}, e.scalar("learningRate", u), {}};
  if (isLamb(adam.mode)) {
    update[2] = e.emitSum("LambSquare", u.weight, "LambR1Sq___" + u.id);
    update[3] = e.emitSum("LambSquare", x, "LambR2Sq___" + u.id);
    update[5] = e.scalar("maxWeightNorm", u);
  }
  e.emit("AdamVarUpdate", update, {"UpdatedVar___" + u.id});
}

void beginUpdate(UpdateEmitter &e, const AdaptiveRule &rule, WeightUpdate &u) { accumulateAndUnscale(e, rule, u); }

void finishUpdate(UpdateEmitter &e, const AdaptiveRule &a, const WeightUpdate &u) {
  const DataType weightType = e.info(u.weight).dataType();
  const Shape shape = e.info(u.weight).shape();
  // compat: the second accumulator has the first one's type, whatever accl2_type says.
  const TensorInfo info(orElse(a.accl1Type, weightType), shape);
  const AdaptiveMode mode = a.mode;
  const TensorIndex alpha = mode == AdaptiveMode::AdaGrad ? TensorIndex{} : e.scalar("alpha", u),
                    eps = e.scalar("eps", u);
  const TensorIndex g = u.clippable;
  const TensorIndex v1 =
      accumulate(e, e.state("Accl1___" + u.id, info, a.tfVariant ? 1.0 : 0.0, u), g, alpha,
                 mode == AdaptiveMode::AdaGrad ? "DampenedAddSquare" : "MovingAverageSquare", "Accl1Updated___" + u.id);
  TensorIndex x;
  if (mode == AdaptiveMode::AdaDelta) {
    const TensorIndex v2 = e.state("Accl2___" + u.id, info, 0.0, u);
    x = e.emitOne("AdaDeltaUpdater", {g, v1, v2, eps}, "AdaptiveUpdater___" + u.id);
    accumulate(e, v2, x, alpha, "MovingAverageSquare", "Accl2Updated___" + u.id);
  } else {
    TensorIndex v2;
    if (mode == AdaptiveMode::CenteredRMSProp)
      v2 = accumulate(e, e.state("Accl2___" + u.id, info, 0.0, u), g, alpha, "MovingAverage", "Accl2Updated___" + u.id);
    x = e.emitOne("RMSPropUpdater", {g, v1, v2, eps}, "AdaptiveUpdater___" + u.id,
                  {{"tf_variant", int64_t{a.tfVariant}}});
  }
  TensorIndex rate = e.scalar("learningRate", u);
  if (a.hasMomentum) {
    const TensorIndex v3 = e.state("Accl3___" + u.id, TensorInfo(orElse(a.accl3Type, weightType), shape), 0.0, u);
    if (a.tfVariant) {
      x = e.emitOne("Mul", {x, e.cast(rate, e.info(x).dataType(), u.id + "_learningRate")}, u.id + "_scaledUpdater");
      rate = e.graph().find("unitLearningRate");
      if (!rate.valid()) rate = e.graph().addConstant("unitLearningRate", TensorData::scalar(1.0f));
    }
    x = accumulate(e, v3, x, e.scalar("momentum", u), "DecayAdd", "Accl3Updated___" + u.id);
  }
  std::vector<TensorIndex> update{u.weight, x, rate};
  if (a.decayMode == WeightDecayMode::Decay && a.hasWeightDecay) update.push_back(e.scalar("weightDecay", u));
  e.emit("ScaledVarUpdate", update, {"UpdatedVar___" + u.id});
}

}  // namespace popart::transforms
