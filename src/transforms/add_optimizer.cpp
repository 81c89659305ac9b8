// Updates of all weights in the order of their ids, in two halves: up to the tensor that clipping scales; then clipping
// of each group by its joint norm, and the rest. Clipping of a group:
//   norm = sqrt(sum_i sum(t_i^2))
//   t_i *= maxNorm / max(norm, maxNorm)
// and for PyTorch's optimizers, as torch.nn.utils.clip_grad_norm_:
//   t_i *= min(1, maxNorm / (norm + 1e-6))
// With Overflow::Skip, ops change weights and states only if all gradients are finite:
//   areFinite = all-reduce(sum_i sum(0 · g_i)) == 0          0 · g is 0, or NaN where g is not finite
#include "transforms/add_optimizer.hpp"

#include <algorithm>

#include <popart/ir.hpp>

#include "base/nearest.hpp"
#include "transforms/update_emitter.hpp"

namespace popart::transforms {
namespace {

std::vector<WeightUpdate *> groupMembers(const ClipNormSettings &group, std::vector<WeightUpdate> &updates) {
  std::vector<WeightUpdate *> members;
  if (group.getMode() == ClipNormSettings::Mode::ClipAllWeights) {
    for (WeightUpdate &u : updates) members.push_back(&u);
    return members;
  }
  for (const TensorId &id : group.getWeightIds()) {
    const size_t before = members.size();
    for (WeightUpdate &u : updates)
      if (u.id == id) members.push_back(&u);
    if (members.size() > before) continue;
    std::vector<std::string> names;
    for (const WeightUpdate &u : updates) names.push_back(u.id);
    throw error("Gradient clipping '{}': the weight is not updated by the optimizer. Take it out of the clip group{}",
                id, nearestText(id, names));
  }
  return members;
}

TensorIndex clipFactor(UpdateEmitter &e, TensorIndex norm, TensorIndex limit, const std::string &suffix) {
  if (!e.followsPyTorch())
    return e.emitOne("Div", {limit, e.emitOne("Max", {norm, limit}, "ClipMax___" + suffix)}, "ClipFactor___" + suffix);
  const auto number = [&](const char *name, double value) {
    return e.graph().addConstant(e.graph().freeId(name + suffix), TensorData::scalar(static_cast<float>(value)));
  };
  const TensorIndex safe = e.emitOne("Add", {norm, number("ClipEpsilon___", 1e-6)}, "ClipNorm___" + suffix);
  const TensorIndex ratio = e.emitOne("Div", {limit, safe}, "ClipRatio___" + suffix);
  return e.emitOne("Min", {ratio, number("ClipOne___", 1.0)}, "ClipFactor___" + suffix);
}

void clipGroup(UpdateEmitter &e, const ClipNormSettings &group, int groupIndex, std::vector<WeightUpdate> &updates) {
  const std::string suffix = std::to_string(groupIndex);
  const std::vector<WeightUpdate *> members = groupMembers(group, updates);
  if (members.empty()) return;
  std::vector<TensorIndex> squares;
  for (WeightUpdate *u : members) {
    const TensorIndex t = e.cast(u->clippable, DataType::FLOAT, u->id + "_clip");
    squares.push_back(e.emitSum("ReduceSumSquare", t, u->id + "_sumSquare", {{"keepdims", int64_t{0}}}));
  }
  const TensorIndex norm =
      e.emitOne("Sqrt", {e.emitOne("Sum", squares, "ClipSumSquares___" + suffix)}, "GlobalNorm___" + suffix);
  const TensorIndex limit =
      e.graph().addConstant(e.graph().freeId("ClipMaxNorm___" + suffix), TensorData::scalar(group.getMaxNorm()));
  const TensorIndex factor = clipFactor(e, norm, limit, suffix);
  for (WeightUpdate *u : members) {
    const TensorIndex f = e.cast(factor, e.info(u->clippable).dataType(), u->id + "_clipFactor");
    u->clippable = e.emitOne("Mul", {u->clippable, f}, u->id + "_clipped");
  }
}

// 0, or NaN where an element is not finite.
TensorIndex finiteness(UpdateEmitter &e, TensorIndex t, const TensorId &id) {
  const DataType type = e.info(t).dataType();
  const TensorId zeroId = std::string("finiteGradientFactor___") + getDataTypeInfo(type).name;
  TensorIndex zero = e.graph().find(zeroId);
  if (!zero.valid()) zero = e.graph().addConstant(zeroId, TensorData(TensorInfo(type, {})));
  const TensorIndex product = e.emitOne("Mul", {t, zero}, id + "_zeroIfFinite");
  const TensorIndex sum = e.emitSum("ReduceSum", product, id + "_isFinite", {{"keepdims", int64_t{0}}});
  return e.cast(sum, DataType::FLOAT, id + "_isFiniteCast");
}

// Whether all gradients of the update are finite, on all replicas.
TensorIndex areFinite(UpdateEmitter &e, const std::vector<WeightUpdate> &updates) {
  std::vector<TensorIndex> sums;
  for (const WeightUpdate &u : updates) {
    e.beginPart(u);
    sums.push_back(finiteness(e, u.finished, u.id));
  }
  e.endPart();
  TensorIndex all = e.emitOne("Sum", sums, "gradientsAreFinite___sum");
  all = e.reducedOverAll(all, "gradientsAreFinite___allReplicas");
  TensorIndex zero = e.graph().find("finiteGradientSum");
  if (!zero.valid()) zero = e.graph().addConstant("finiteGradientSum", TensorData::scalar(0.0f));
  return e.emitOne("Equal", {all, zero}, "gradientsAreFinite");
}

bool needsWholeWeight(const UpdateRule &rule) {
  const AdamRule *adam = std::get_if<AdamRule>(&rule.form);
  const PyTorchRule *pyTorch = std::get_if<PyTorchRule>(&rule.form);
  return (adam && isLamb(adam->mode)) || (pyTorch && pyTorch->mode == PyTorchMode::Lamb);
}

// One update of the whole weight, or one for each of its parts.
std::vector<WeightUpdate> updatesOf(UpdateEmitter &emitter, WeightUpdate whole, const GradientParts &parts) {
  const auto found = parts.find(whole.id);
  if (found == parts.end() || needsWholeWeight(*whole.rule)) return {whole};
  std::vector<WeightUpdate> updates;
  for (size_t i = found->second.size(); i-- > 0;) {
    WeightUpdate u = whole;
    u.part = found->second[i];
    u.gradient = u.part->value;
    u.isLastPart = i == 0;
    emitter.beginPart(u);
    u.weight = emitter.partOf(u.variable, u);
    updates.push_back(u);
  }
  return updates;
}

}  // namespace

WeightUpdates addOptimizer(Graph &graph, const UpdateRules &rules, const std::map<TensorId, TensorId> &weightToGradient,
                           const GradientParts &parts, Overflow overflow) {
  UpdateEmitter emitter(graph, rules, overflow);
  std::vector<WeightUpdate> updates;
  for (const auto &[weight, gradient] : weightToGradient) {
    const TensorIndex variable = graph.getTensor(weight)->index();
    check(graph.tensor(variable).tensorType() == TensorType::Variable, "Optimizer '{}': only variables can be updated",
          weight);
    WeightUpdate whole{weight, variable, variable, &rules.of(weight), graph.getTensor(gradient)->index(), {}, {}};
    for (WeightUpdate &u : updatesOf(emitter, whole, parts)) {
      emitter.beginPart(u);
      std::visit([&](const auto &form) { beginUpdate(emitter, form, u); }, u.rule->form);
      if (!u.finished.valid()) u.finished = u.gradient;
      updates.push_back(u);
    }
  }
  emitter.endPart();
  if (overflow == Overflow::Skip && !updates.empty()) emitter.setFinite(areFinite(emitter, updates));
  int groupIndex = 0;
  for (const ClipNormSettings &group : rules.clipping) clipGroup(emitter, group, groupIndex++, updates);
  for (const WeightUpdate &u : updates) {
    emitter.beginPart(u);
    std::visit([&](const auto &form) { finishUpdate(emitter, form, u); }, u.rule->form);
  }
  emitter.endPart();
  emitter.skipWhereNotFinite();
  emitter.clearAccumulators();
  return emitter.result();
}

}  // namespace popart::transforms
