// See update_emitter.hpp. Scalars are FLOAT for all weight types, so that small factors keep their precision.
#include "transforms/update_emitter.hpp"

#include <algorithm>

#include <popart/ir.hpp>

#include "ir/hints.hpp"
#include "ir/layer_names.hpp"
#include "ops/optim/var_update.hpp"

namespace popart::transforms {
namespace {

// The name of the first named op that reads the weight; else the name of the weight.
std::string layerOfWeight(const Graph &graph, const WeightUpdate &u) {
  for (const Use &use : graph.tensor(u.variable).uses()) {
    const LayerOf reader = layerOf(graph.op(use.op).name());
    if (!reader.layer.empty()) return reader.layer;
  }
  return u.id;
}

}  // namespace

TensorIndex UpdateEmitter::scalar(const std::string &name, const WeightUpdate &u) {
  const OptimizerScalar &scalar = u.rule->scalar(name);
  const TensorId id = scalar.id();
  if (const TensorIndex made = graph_.find(id); made.valid()) return made;
  const TensorData data = TensorData::scalar(scalar.value.val());
  if (scalar.value.isConst()) return graph_.addConstant(id, data);
  made_.scalars.push_back({id, name, u.id, scalar.unscales});
  return graph_.addVariable(id, data);
}

std::vector<TensorIndex> UpdateEmitter::emit(std::string_view type, const std::vector<TensorIndex> &inputs,
                                             const std::vector<TensorId> &outputIds, Attributes attributes) {
  std::vector<TensorId> ids;
  const std::string suffix = part_ < 0 ? "" : "___from" + std::to_string(part_);
  for (const TensorId &id : outputIds) ids.push_back(id.empty() ? id : graph_.freeId(id + suffix));
  Op::Settings settings(graph_, name_);
  settings.sequence = place_;
  if (part_ >= 0) settings.hints.emplace(kSerialised, "");
  if (accumulates()) settings.executionContext = context_;
  return graph_.addConnectedOp(opDef(type), inputs, ids, std::move(attributes), settings)->outputs();
}

TensorIndex UpdateEmitter::accumulated(const WeightUpdate &u) {
  const OptimizerFactors &factors = rules_.factors;
  const bool running = factors.reduction == OptimizerFactors::Reduction::MeanRunning;
  const char *over = running ? "Mean" : "Add";
  if (!accumulates()) return reduced(u.gradient, over, u, "FinalReducedGradient___" + u.id);
  const float share = running ? 1.0f / static_cast<float>(factors.accumulationFactor) : 1.0f;
  return accumulatedIn("Accum___" + u.id, u, u.rule->accumType, share, over);
}

TensorIndex UpdateEmitter::summedIn(const TensorId &state, const WeightUpdate &u) {
  return accumulates() ? accumulatedIn(state, u, DataType::UNDEFINED, 1.0f, "Add") : u.gradient;
}

TensorIndex UpdateEmitter::reduced(TensorIndex t, const char *op, const WeightUpdate &u, const TensorId &outputId) {
  const auto replicas = static_cast<unsigned>(rules_.factors.replicationFactor);
  const ReplicaGrouping group = graph_.tensor(u.variable).variableSettings.getReplicaGrouping(replicas);
  if (group.getGroupSize() == 1) return t;
  return emitOne(
      accumulates() ? "ReplicatedAllReduceInplace" : "ReplicatedAllReduce", {t}, outputId,
      {{"op", std::string(op)}, {"group_size", int64_t{group.getGroupSize()}}, {"stride", int64_t{group.getStride()}}});
}

TensorIndex UpdateEmitter::reducedOverAll(TensorIndex t, const TensorId &outputId) {
  const int64_t replicas = rules_.factors.replicationFactor;
  if (replicas == 1) return t;
  return emitOne("ReplicatedAllReduce", {t}, outputId,
                 {{"op", std::string("Add")}, {"group_size", replicas}, {"stride", int64_t{1}}});
}

TensorIndex UpdateEmitter::overflowed() {
  if (!overflowed_.valid()) overflowed_ = emitOne("Not", {made_.areFinite}, "gradientsOverflowed");
  return overflowed_;
}

// Changes made in each micro-batch are inputs of the test for overflow, so they cannot depend on its result.
void UpdateEmitter::skipWhereNotFinite() {
  if (!made_.areFinite.valid()) return;
  for (Op *op : graph_.ops()) {
    const int due = ops::dueInputOf(op->def());
    if (int64_t{op->index().value} < made_.firstOp || due < 0 || op->hasInput(due)) continue;
    if (accumulates() && op->settings.executionContext == ExecutionContext::Normal) continue;
    if (std::ranges::any_of(op->def().aliasRules(),
                            [&](const AliasDef &a) { return a.modifies && op->hasInput(a.input); }))
      graph_.connectInput(op->index(), due, made_.areFinite);
  }
}

TensorIndex UpdateEmitter::accumulatedIn(const TensorId &id, const WeightUpdate &u, DataType accumType, float share,
                                         const char *over) {
  const DataType type = accumType == DataType::UNDEFINED ? info(u.weight).dataType() : accumType;
  const TensorIndex factor =
      graph_.addConstant(graph_.freeId("accumulationShare___" + u.id), TensorData::scalar(share));
  setContext(ExecutionContext::Normal);
  const TensorIndex state = this->state(id, TensorInfo(type, info(u.weight).shape()), 0.0, u);
  const TensorIndex gradient = cast(u.gradient, type, u.id + "_accumulatedType");
  const TensorIndex sum = emitOne("Accumulate", {state, gradient, factor}, "AccumOut___" + u.id,
                                  {{"accumulation_type", std::string("DampenedAdd")}});
  setContext(ExecutionContext::AccumulateOuterFragment);
  const TensorIndex everywhere = reduced(seenAfterwards(state, sum, u), over, u, "FinalReducedGradient___" + u.id);
  accumulators_.push_back({u.id, everywhere, part_});
  return everywhere;
}

void UpdateEmitter::clearAccumulators() {
  for (const auto &[weight, sum, part] : accumulators_) {
    part_ = part;
    const TensorIndex zeroed = emitOne("AccumulatorZero", {sum}, "AccumZeroed___" + weight);
    made_.resets.insert(graph_.tensor(zeroed).producerIndex());
  }
  endPart();
}

TensorIndex UpdateEmitter::emitOne(std::string_view type, const std::vector<TensorIndex> &inputs,
                                   const TensorId &outputId, Attributes attributes) {
  return emit(type, inputs, {outputId}, std::move(attributes))[0];
}

TensorIndex UpdateEmitter::emitSum(std::string_view type, TensorIndex input, const TensorId &outputId,
                                   Attributes attributes) {
  const TensorIndex sum = emitOne(type, {input}, outputId, std::move(attributes));
  made_.sums.insert(graph_.tensor(sum).producerIndex());
  return sum;
}

TensorIndex UpdateEmitter::cast(TensorIndex t, DataType type, const TensorId &outputId) {
  return info(t).dataType() == type ? t : emitOne("Cast", {t}, outputId, {{"to", int64_t{toOnnxDataType(type)}}});
}

// The info of a state variable from that of the update's part of it.
TensorInfo UpdateEmitter::wholeInfo(const TensorInfo &part, const WeightUpdate &u) const {
  return part.shape() == info(u.weight).shape() ? TensorInfo(part.dataType(), info(u.variable).shape()) : part;
}

TensorIndex UpdateEmitter::state(const TensorId &id, const TensorInfo &wanted, double value, const WeightUpdate &u) {
  const TensorInfo whole = wholeInfo(wanted, u);
  const auto replicas = static_cast<unsigned>(rules_.factors.replicationFactor);
  const VariableSettings &sharing = graph_.tensor(u.variable).variableSettings;  // one value per group of replicas
  const TensorInfo all(whole.dataType(), sharing.shapeOnHost(whole.shape(), replicas));
  if (value == 0) return state(id, wanted, TensorData(all), u);
  return state(id, wanted, TensorData::fromDoubles(all, std::vector<double>(static_cast<size_t>(all.nelms()), value)),
               u);
}

TensorIndex UpdateEmitter::state(const TensorId &id, const TensorInfo &wanted, const TensorData &initial,
                                 const WeightUpdate &u) {
  const TensorInfo whole = wholeInfo(wanted, u);
  TensorIndex t = graph_.find(id);
  if (t.valid()) {
    check(
        info(t) == whole && graph_.tensor(t).tensorType() == TensorType::Variable,
        "Optimizer '{}': the model's initial value of this state cannot be used: got {}, expected an initializer of {}",
        id, info(t), whole);
  } else {
    t = graph_.addVariable(id, initial);
    graph_.tensor(t).info = whole;
  }
  graph_.tensor(t).isOptimizerState = true;
  graph_.tensor(t).variableSettings = graph_.tensor(u.variable).variableSettings;
  if (wanted.shape() == info(u.weight).shape()) return partOf(t, u);
  return u.isLastPart ? t : emitOne("Identity", {t}, id + "___before");
}

TensorIndex UpdateEmitter::partOf(TensorIndex variable, const WeightUpdate &u) {
  if (!u.part) return variable;
  const Attributes attributes{{"axes", std::vector<int64_t>{u.part->axis}},
                              {"starts", std::vector<int64_t>{u.part->start}},
                              {"ends", std::vector<int64_t>{u.part->end}}};
  const TensorIndex part = emitOne("SliceInplace", {variable}, graph_.tensor(variable).id + "___part", attributes);
  // Otherwise the read of the same part in the forward pass would keep it in memory until the update.
  graph_.tensor(part).getProducer()->settings.recomputeType = RecomputeType::Recomputed;
  wholes_[part] = variable;
  return part;
}

TensorIndex UpdateEmitter::seenAfterwards(TensorIndex state, TensorIndex written, const WeightUpdate &u) {
  return accumulates() && u.part ? partOf(wholes_.at(state), u) : written;
}

void UpdateEmitter::beginPart(const WeightUpdate &u) {
  endPart();
  name_ = layerOfWeight(graph_, u) + "/" + kUpdateSuffix;
  if (!u.part) return;
  part_ = u.part->start;
  place_ = graph_.tensor(u.part->value).getProducer()->place();
}

}  // namespace popart::transforms
