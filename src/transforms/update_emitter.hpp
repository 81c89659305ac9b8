// Adds optimizer ops for one graph: scalars (shared between weights), state variables and elementary arithmetic.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/layer_names.hpp"
#include "transforms/add_optimizer.hpp"

namespace popart::transforms {

// One weight, or a part of one, between its gradient and its update.
struct WeightUpdate {
  TensorId id;           // of the weight
  TensorIndex variable;  // the weight
  TensorIndex weight;    // the updated tensor: the weight, or a part of it in its memory
  const UpdateRule *rule;
  TensorIndex gradient;              // result of differentiation
  TensorIndex clippable;             // the tensor that clipping scales; afterwards the scaled tensor
  TensorIndex velocity;              // SGD: state after the gradient was added
  TensorIndex finished{};            // the gradient of the whole update, or a tensor that is finite only if it is
  std::optional<TensorPart> part{};  // which part
  bool isLastPart = true;            // the last part of the weight
};

class UpdateEmitter {
 public:
  UpdateEmitter(Graph &graph, const UpdateRules &rules, Overflow overflow = Overflow::Apply)
      : graph_(graph), rules_(rules), overflow_(overflow) {
    made_.firstOp = static_cast<int64_t>(graph.opSlots());
  }

  Graph &graph() const { return graph_; }
  const TensorInfo &info(TensorIndex t) const { return graph_.info(t); }
  // The scalar of the weight's rule as a tensor: a constant, or a variable that the session writes.
  TensorIndex scalar(const std::string &name, const WeightUpdate &update);
  // One op; output i is named outputIds[i] (made unique).
  std::vector<TensorIndex> emit(std::string_view type, const std::vector<TensorIndex> &inputs,
                                const std::vector<TensorId> &outputIds, Attributes attributes = {});
  TensorIndex emitOne(std::string_view type, const std::vector<TensorIndex> &inputs, const TensorId &outputId,
                      Attributes attributes = {});
  // One op that sums over all elements of `input`.
  TensorIndex emitSum(std::string_view type, TensorIndex input, const TensorId &outputId, Attributes attributes = {});
  // t in element type `type`.
  TensorIndex cast(TensorIndex t, DataType type, const TensorId &outputId);
  // State variable `id` of the update, or the update's part of it; filled with `value` unless the graph already has it.
  // It belongs to the replicas that share the weight. `info` is that of the update's part, `initial` contains all
  // values. State of one element is shared by all parts: only the update of the last part changes it.
  TensorIndex state(const TensorId &id, const TensorInfo &info, double value, const WeightUpdate &update);
  TensorIndex state(const TensorId &id, const TensorInfo &info, const TensorData &initial, const WeightUpdate &update);
  // The update's part of a variable, in the variable's memory; the variable itself if the update covers all of it.
  TensorIndex partOf(TensorIndex variable, const WeightUpdate &update);
  // The value of `state` after the last micro-batch, if each micro-batch writes `written` to it.
  TensorIndex seenAfterwards(TensorIndex state, TensorIndex written, const WeightUpdate &update);

  const OptimizerValue &lossScaling() const { return rules_.lossScaling; }
  // The updates are those of popart::optim.
  bool followsPyTorch() const { return std::holds_alternative<PyTorchRule>(rules_.common.form); }

  // Ops made from now on belong to this update, and to its part; they are named after the layer of the weight. Those of
  // a part run right after its gradient.
  void beginPart(const WeightUpdate &update);
  void endPart() { part_ = -1, place_ = -1, name_ = kUpdateSuffix; }
  // Sets where optimizer ops made from now on run: in each micro-batch, or in the update after the last one.
  void setContext(ExecutionContext context) { context_ = context; }
  // The gradient summed (Running mean: averaged) over the micro-batches in state "Accum___<weight>", of the rule's type
  // or else the weight's, and over the weight's group of replicas; the gradient itself if there is one of each.
  TensorIndex accumulated(const WeightUpdate &update);
  // The gradient summed over the micro-batches in state `id` of the weight's type, and over the replicas.
  TensorIndex summedIn(const TensorId &id, const WeightUpdate &update);
  // `t` reduced by `op` ("Add", "Mean") over the replicas that share the weight; a variable is reduced in place. `t`
  // itself with one replica.
  TensorIndex reduced(TensorIndex t, const char *op, const WeightUpdate &update, const TensorId &outputId);
  // Sets the accumulators of `accumulated` and `summedIn` to zero; call it after all updates.
  void clearAccumulators();
  bool accumulates() const { return rules_.factors.accumulationFactor > 1; }

  // `t`, of one element, summed over all replicas.
  TensorIndex reducedOverAll(TensorIndex t, const TensorId &outputId);
  bool skipsOverflow() const { return overflow_ == Overflow::Skip; }
  // Sets the tensor that says whether the update's gradients are finite.
  void setFinite(TensorIndex areFinite) { made_.areFinite = areFinite; }
  // Its negation.
  TensorIndex overflowed();
  // Lets the ops of the update change weights and states only if gradients are finite.
  void skipWhereNotFinite();

  const WeightUpdates &result() const { return made_; }

 private:
  TensorInfo wholeInfo(const TensorInfo &part, const WeightUpdate &update) const;
  TensorIndex accumulatedIn(const TensorId &id, const WeightUpdate &update, DataType accumType, float share,
                            const char *over);

  Graph &graph_;
  const UpdateRules &rules_;
  const Overflow overflow_;
  TensorIndex overflowed_;
  WeightUpdates made_;
  ExecutionContext context_ = ExecutionContext::AccumulateOuterFragment;
  std::string name_ = kUpdateSuffix;           // of ops
  int64_t part_ = -1, place_ = -1;             // first element and place of the current part; -1: none
  std::map<TensorIndex, TensorIndex> wholes_;  // part of a variable -> the variable
  struct Accumulator {
    TensorId weight;
    TensorIndex sum;  // the accumulated gradient
    int64_t part;     // as part_
  };
  std::vector<Accumulator> accumulators_;
};

// Element types of state: `type`, or `fallback` if it is UNDEFINED.
DataType orElse(DataType type, DataType fallback);
// Op Accumulate of `kind`: the new value of `state`. `factor`: a tensor of one element, or none: 1.
TensorIndex accumulate(UpdateEmitter &emitter, TensorIndex state, TensorIndex value, TensorIndex factor,
                       const char *kind, const TensorId &id);
// The finished gradient in `type`, times scalar "gradientScale".
TensorIndex unscaledGradient(UpdateEmitter &emitter, const WeightUpdate &update, DataType type);
// `gradient` plus scalar "weightDecay" times the weight.
TensorIndex regularizedGradient(UpdateEmitter &emitter, const WeightUpdate &update, TensorIndex gradient);

// The update of one weight in two halves: up to the tensor that clipping scales, and after it.
void beginUpdate(UpdateEmitter &emitter, const SgdRule &rule, WeightUpdate &update);
void beginUpdate(UpdateEmitter &emitter, const AdamRule &rule, WeightUpdate &update);
void beginUpdate(UpdateEmitter &emitter, const AdaptiveRule &rule, WeightUpdate &update);
void beginUpdate(UpdateEmitter &emitter, const PyTorchRule &rule, WeightUpdate &update);
void finishUpdate(UpdateEmitter &emitter, const SgdRule &rule, const WeightUpdate &update);
void finishUpdate(UpdateEmitter &emitter, const AdamRule &rule, const WeightUpdate &update);
void finishUpdate(UpdateEmitter &emitter, const AdaptiveRule &rule, const WeightUpdate &update);
void finishUpdate(UpdateEmitter &emitter, const PyTorchRule &rule, const WeightUpdate &update);

}  // namespace popart::transforms
