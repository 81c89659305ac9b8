// Update ops of popart::optim, with the formulas of torch.optim (docs/guides/optimizers.md). w weight, g gradient after
// clipping, t updates before this one:
//   SGD       g += wd w; v = momentum v + (1 - dampening) g, first update: v = g; x = v, nesterov: g + momentum v
//   Adam      g += wd w; m, v moments of g; x = m̂ / (√v̂ + eps); amsgrad: v̂ of the largest v so far
//   AdamW     Adam without g += wd w; x += wd w; Lamb: then x *= |w| / |x|
//   Adamax    g += wd w; u = max(beta2 u, |g| + eps); x = m̂ / u
//   RMSprop   g += wd w; x = g / (√v + eps), centered: v - m²; momentum: x = b = momentum b + x
//   Adagrad   g += wd w; s += g²; x = g / (√s + eps); lr / (1 + t lr_decay) instead of lr
//   Adadelta  g += wd w; x = g √(d + eps) / √(v + eps); d of x²
//   w -= lr x
#include <cmath>

#include "transforms/update_emitter.hpp"

namespace popart::transforms {
namespace {

// One weight's update: shorthands for its ops.
class Step {
 public:
  Step(UpdateEmitter &e, const PyTorchRule &rule, const WeightUpdate &u) : e_(e), rule_(rule), u_(u) {
    g_ = u.clippable;
    type_ = e.info(g_).dataType();
  }

  void run() {
    const bool decaysApart = rule_.mode == PyTorchMode::AdamW || rule_.mode == PyTorchMode::Lamb;
    if (rule_.hasWeightDecay && !decaysApart) g_ = regularizedGradient(e_, u_, g_);
    switch (rule_.mode) {
      case PyTorchMode::SGD:
        return sgd();
      case PyTorchMode::Adam:
      case PyTorchMode::AdamW:
      case PyTorchMode::Adamax:
      case PyTorchMode::Lamb:
        return adam();
      case PyTorchMode::RMSprop:
        return rmsprop();
      case PyTorchMode::Adagrad:
        return adagrad();
      case PyTorchMode::Adadelta:
        return adadelta();
    }
  }

 private:
  TensorIndex state(const char *prefix, double value = 0.0) {
    return e_.state(prefix + ("___" + u_.id), TensorInfo(type_, e_.info(u_.weight).shape()), value, u_);
  }
  TensorIndex updated(const char *prefix, TensorIndex value, TensorIndex factor, const char *kind, double first = 0.0) {
    return accumulate(e_, state(prefix, first), value, factor, kind, prefix + ("Updated___" + u_.id));
  }
  // The number of updates before this one.
  TensorIndex steps() { return e_.state("Step___" + u_.id, TensorInfo(DataType::FLOAT, {}), 0.0, u_); }
  TensorIndex scalar(const char *name) { return e_.scalar(name, u_); }
  TensorIndex number(const char *name, float value) {
    const TensorIndex made = e_.graph().find(name);
    return made.valid() ? made : e_.graph().addConstant(name, TensorData::scalar(value));
  }
  TensorIndex emit(const char *type, const std::vector<TensorIndex> &inputs, const char *name) {
    return e_.emitOne(type, inputs, name + ("___" + u_.id));
  }
  TensorIndex typed(TensorIndex t, const char *name) { return e_.cast(t, type_, name + ("___" + u_.id)); }
  void assign(const char *type, const std::vector<TensorIndex> &inputs) {
    e_.emit(type, inputs, {"UpdatedVar___" + u_.id});
  }

  // 1 in the first update, 1 - dampening later.
  TensorIndex share() {
    const TensorIndex before = steps(), one = number("unitShare", 1.0f);
    const TensorIndex isFirst = emit("Equal", {before, number("zeroUpdates", 0.0f)}, "FirstUpdate");
    const TensorIndex later = emit("Sub", {one, scalar("dampening")}, "DampenedShare");
    const TensorIndex result = emit("Where", {isFirst, one, later}, "VelocityShare");
    accumulate(e_, before, one, {}, "Add", "StepUpdated___" + u_.id);
    return result;
  }

  void sgd() {
    if (!rule_.hasMomentum) {
      const TensorIndex keeps = number("weightKept", 1.0f);
      return assign("SGD0VarUpdate", {u_.weight, g_, scalar("learningRate"), keeps});
    }
    TensorIndex in = g_;
    if (rule_.hasDampening) in = emit("Mul", {g_, typed(share(), "VelocityShareCast")}, "DampenedGradient");
    TensorIndex x = updated("Accl1", in, scalar("momentum"), "DecayAdd");
    if (rule_.nesterov)
      x = emit("Add", {g_, emit("Mul", {x, typed(scalar("momentum"), "Momentum")}, "NesterovVelocity")},
               "NesterovUpdater");
    assign("SGD2VarUpdate", {u_.weight, x, scalar("learningRate")});
  }

  void adam() {
    const bool isMax = rule_.mode == PyTorchMode::Adamax;
    const TensorIndex beta1 = scalar("beta1"), beta2 = scalar("beta2"), eps = scalar("eps");
    const TensorIndex m = updated("Accl1", g_, beta1, "MovingAverage");
    TensorIndex v;
    if (isMax) {
      const TensorIndex size = emit("Add", {emit("Abs", {g_}, "GradientSize"), typed(eps, "Eps")}, "GradientBound");
      v = updated("Accl2", size, beta2, "Infinity");
    } else {
      v = updated("Accl2", g_, beta2, "MovingAverageSquare");
    }
    if (rule_.amsgrad) v = updated("Accl3", v, {}, "Infinity");
    std::vector<TensorIndex> inputs{{}, m, v, steps(), {}, beta1, beta2, isMax ? number("noEps", 0.0f) : eps};
    const bool decaysApart = rule_.mode == PyTorchMode::AdamW || rule_.mode == PyTorchMode::Lamb;
    if (rule_.hasWeightDecay && decaysApart) inputs[0] = u_.weight, inputs[4] = scalar("weightDecay");
    const TensorIndex x = e_.emit("AdamUpdater", inputs, {"AdamUpdater___" + u_.id, "StepUpdated___" + u_.id},
                                  {{"mode", std::string(isMax ? "AdaMax" : "Adam")}})[0];
    std::vector<TensorIndex> update{u_.weight, x, {}, {}, scalar("learningRate"), {}};
    if (rule_.mode == PyTorchMode::Lamb) {
      update[2] = e_.emitSum("LambSquare", u_.weight, "LambR1Sq___" + u_.id);
      update[3] = e_.emitSum("LambSquare", x, "LambR2Sq___" + u_.id);
      if (rule_.hasNormLimit) update[5] = scalar("maxWeightNorm");
    }
    assign("AdamVarUpdate", update);
  }

  void rmsprop() {
    const TensorIndex alpha = scalar("alpha");
    const TensorIndex v = updated("Accl1", g_, alpha, "MovingAverageSquare");
    const TensorIndex mean = rule_.centered ? updated("Accl2", g_, alpha, "MovingAverage") : TensorIndex{};
    TensorIndex x = emit("RMSPropUpdater", {g_, v, mean, scalar("eps")}, "AdaptiveUpdater");
    if (rule_.hasMomentum) x = updated("Accl3", x, scalar("momentum"), "DecayAdd");
    assign("ScaledVarUpdate", {u_.weight, x, scalar("learningRate")});
  }

  void adagrad() {
    const TensorIndex v = updated("Accl1", g_, {}, "DampenedAddSquare", rule_.initialAccumulator);
    const TensorIndex x = emit("RMSPropUpdater", {g_, v, {}, scalar("eps")}, "AdaptiveUpdater");
    TensorIndex rate = scalar("learningRate");
    if (rule_.hasRateDecay) {
      const TensorIndex before = steps(), one = number("unitShare", 1.0f);
      const TensorIndex decay = emit("Mul", {before, scalar("learningRateDecay")}, "RateDecay");
      rate = emit("Div", {rate, emit("Add", {decay, one}, "RateDivisor")}, "DecayedRate");
      accumulate(e_, before, one, {}, "Add", "StepUpdated___" + u_.id);
    }
    assign("ScaledVarUpdate", {u_.weight, x, rate});
  }

  void adadelta() {
    const TensorIndex rho = scalar("rho");
    const TensorIndex v = updated("Accl1", g_, rho, "MovingAverageSquare"), d = state("Accl2");
    const TensorIndex x = emit("AdaDeltaUpdater", {g_, v, d, scalar("eps")}, "AdaptiveUpdater");
    accumulate(e_, d, x, rho, "MovingAverageSquare", "Accl2Updated___" + u_.id);
    assign("ScaledVarUpdate", {u_.weight, x, scalar("learningRate")});
  }

  UpdateEmitter &e_;
  const PyTorchRule &rule_;
  const WeightUpdate &u_;
  TensorIndex g_;
  DataType type_;
};

}  // namespace

void beginUpdate(UpdateEmitter &e, const PyTorchRule &rule, WeightUpdate &u) {
  u.gradient = e.accumulated(u);
  const DataType type = e.info(u.weight).dataType() == DataType::DOUBLE ? DataType::DOUBLE : DataType::FLOAT;
  u.clippable = unscaledGradient(e, u, type);
  if (std::isinf(rule.clipValue)) return;
  u.clippable =
      e.emitOne("Clip", {u.clippable}, u.id + "_clipped", {{"min", -rule.clipValue}, {"max", rule.clipValue}});
}

void finishUpdate(UpdateEmitter &e, const PyTorchRule &rule, const WeightUpdate &u) { Step(e, rule, u).run(); }

}  // namespace popart::transforms
