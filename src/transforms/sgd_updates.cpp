// Update ops of SGD. w weight, g gradient, v velocity:
//   SGD0  w = SGD0VarUpdate(w, g)
//   SGD1  v = Accumulate(v, g); w = SGD1VarUpdate(w, v); v = SGD1AcclUpdate(v, w)
//   SGD2  v = SGD2PartialAcclUpdate(v, w); v = Accumulate(v, g); w = SGD2VarUpdate(w, v)
//   Replicas: g is reduced over them, or v if it accumulates over micro-batches, which the scalars consider.
//   Overflow::Skip and micro-batches: SGD1's v = CopyVarUpdate(v, v', overflowed); v' = CopyVarUpdate(v', v)
//   Nesterov: the weight update reads SGD1Nesterov(g, w, v) instead of v, with g summed over the micro-batches.
#include "transforms/update_emitter.hpp"

namespace popart::transforms {
namespace {

bool isCombined(const SgdRule &sgd) { return sgd.accumulatorAndMomentum == SGDAccumulatorAndMomentum::Combined; }

TensorIndex velocityState(UpdateEmitter &e, const SgdRule &sgd, const WeightUpdate &u) {
  const DataType weightType = e.info(u.weight).dataType();
  if (!isCombined(sgd)) {
    const DataType type = sgd.accl1Type == DataType::UNDEFINED ? weightType : sgd.accl1Type;
    return e.state("Accl1___" + u.id, TensorInfo(type, e.info(u.weight).shape()), 0.0, u);
  }
  check(e.info(u.gradient).dataType() == weightType,
        "SGD '{}': weight and gradient differ in type: got {} and {}, expected equal types", u.id, weightType,
        e.info(u.gradient).dataType());
  const double swd1 = u.rule->scalar("scaledWeightDecay1").value.val();
  if (swd1 == 0) return e.state("Accl___" + u.id, e.info(u.weight), 0.0, u);
  const TensorData &first = e.graph().tensor(u.variable).tensorData();  // one value per group of replicas
  std::vector<double> values = first.asDoubles();
  for (double &v : values) v *= swd1;
  return e.state("Accl___" + u.id, e.info(u.weight), TensorData::fromDoubles(first.info(), values), u);
}

// Micro-batches add to a velocity before it is known whether one of them overflows. If so, the velocity gets its former
// value back, which another state stores.
void restoreVelocity(UpdateEmitter &e, const WeightUpdate &u, TensorIndex velocity) {
  const TensorIndex variable = e.graph().find("Accl___" + u.id);
  const TensorIndex former =
      e.state("Accl___" + u.id + "___beforeUpdate", e.info(u.weight), e.graph().tensor(variable).tensorData(), u);
  const TensorIndex restored = e.emitOne("CopyVarUpdate", {velocity, former, e.overflowed()}, "AcclRestored___" + u.id);
  e.emit("CopyVarUpdate", {former, restored}, {"AcclKept___" + u.id});
}

}  // namespace

void beginUpdate(UpdateEmitter &e, const SgdRule &sgd, WeightUpdate &u) {
  const bool combined = isCombined(sgd);
  if (!sgd.hasVelocity || !combined) u.gradient = e.accumulated(u);
  u.clippable = u.gradient;
  if (!sgd.hasVelocity) return;
  const bool reducesVelocity = combined && e.accumulates();  // once per update
  if (combined && !e.accumulates()) u.gradient = e.reduced(u.gradient, "Add", u, "FinalReducedGradient___" + u.id);
  if (combined) e.setContext(ExecutionContext::Normal);  // the velocity itself accumulates
  const TensorIndex state = velocityState(e, sgd, u);
  TensorIndex v = state;
  if (!combined)
    v = e.emitOne("SGD2PartialAcclUpdate",
                  {v, u.weight, e.scalar("scaledMomentum2", u), e.scalar("scaledWeightDecay1", u)},
                  "AcclIntoReduce___" + u.id);
  const std::string factor = combined ? "dampeningScaleFactor1" : "dampeningScaleFactor2";
  u.velocity = e.emitOne("Accumulate", {v, u.gradient, e.scalar(factor, u)},
                         (reducesVelocity ? "AcclIntoReduce___" : "AcclIntoUpdate___") + u.id,
                         {{"accumulation_type", std::string("DampenedAdd")}});
  e.setContext(ExecutionContext::AccumulateOuterFragment);
  if (combined) u.velocity = e.seenAfterwards(state, u.velocity, u);
  if (reducesVelocity) u.velocity = e.reduced(u.velocity, "Add", u, "AcclIntoUpdate___" + u.id);
  u.clippable = u.velocity;
  if (combined && e.accumulates()) u.finished = u.velocity;
  if (!sgd.usesNesterov) return;
  // A combined velocity contains only dampened gradients, so the plain ones are summed separately.
  if (combined) u.gradient = e.summedIn("Accl___" + u.id + "_nesterovGrad", u);
  u.clippable = e.emitOne("SGD1Nesterov",
                          {u.gradient, u.weight, u.velocity, e.scalar("nesterovUnscale", u), e.scalar("weightDecay", u),
                           e.scalar("nesterovGradScaleFactor", u), e.scalar("momentum", u)},
                          "NesterovUpdater___" + u.id);
  if (u.finished.valid()) u.finished = u.clippable;
}

void finishUpdate(UpdateEmitter &e, const SgdRule &sgd, const WeightUpdate &u) {
  const TensorId updated = "UpdatedVar___" + u.id;
  if (!sgd.hasVelocity) {
    e.emit("SGD0VarUpdate",
           {u.weight, u.clippable, e.scalar("scaledLearningRate0", u), e.scalar("weightDecayScaleFactor0", u)},
           {updated});
    return;
  }
  if (!isCombined(sgd)) {
    e.emit("SGD2VarUpdate", {u.weight, u.clippable, e.scalar("scaledLearningRate2", u)}, {updated});
    return;
  }
  const TensorIndex weight =
      e.emitOne("SGD1VarUpdate", {u.weight, u.clippable, e.scalar("scaledLearningRate1", u)}, updated);
  const TensorIndex next = e.emitOne(
      "SGD1AcclUpdate", {u.velocity, weight, e.scalar("scaledMomentum1", u), e.scalar("scaledWeightDecay1", u)},
      "AcclOutOfAcclUpdate___" + u.id);
  if (e.skipsOverflow() && e.accumulates()) restoreVelocity(e, u, next);
}

}  // namespace popart::transforms
