// Adds optimizer ops for one graph: scalars (shared between weights), state variables and elementary arithmetic.
#pragma once
#include <string>
#include <vector>

#include "transforms/add_optimizer.hpp"

namespace popart::transforms {

// One weight between its gradient and its update. The emitters below are split at the tensor that clipping scales.
struct WeightUpdate {
  TensorId id;
  TensorIndex weight;
  TensorIndex gradient;   // as differentiation left it
  TensorIndex clippable;  // what clipping scales; afterwards the scaled tensor
  TensorIndex velocity;   // SGD: state after the gradient was added
};

class UpdateEmitter {
 public:
  UpdateEmitter(Graph &graph, const Optimizer &optimizer) : graph_(graph), optimizer_(optimizer) {}

  Graph &graph() const { return graph_; }
  const TensorInfo &info(TensorIndex t) const { return graph_.info(t); }
  // The scalar as a tensor: a constant, or a variable that the session writes.
  TensorIndex scalar(const std::string &name, const TensorId &weight);
  // One op; output i is named outputIds[i] (made unique).
  std::vector<TensorIndex> emit(std::string_view type, const std::vector<TensorIndex> &inputs,
                                const std::vector<TensorId> &outputIds, Attributes attributes = {});
  TensorIndex emitOne(std::string_view type, const std::vector<TensorIndex> &inputs, const TensorId &outputId,
                      Attributes attributes = {});
  // t in element type `type`.
  TensorIndex cast(TensorIndex t, DataType type, const TensorId &outputId);
  // State variable `id` of this info; filled with `value` unless the graph has it already.
  TensorIndex state(const TensorId &id, const TensorInfo &info, double value);
  TensorIndex state(const TensorId &id, const TensorData &initial);

  // What optimizer ops made from now on belong to: each micro-batch, or the update after the last one.
  void setContext(ExecutionContext context) { context_ = context; }
  // The gradient summed (Running mean: averaged) over the micro-batches in state "Accum___<weight>", of type
  // `accumType` or else the weight's; the gradient itself where nothing accumulates.
  TensorIndex accumulated(const WeightUpdate &update, DataType accumType);
  // The gradient summed over the micro-batches in state `id` of the weight's type; the gradient itself where nothing
  // accumulates.
  TensorIndex summedIn(const TensorId &id, const WeightUpdate &update);
  // Empties the accumulators of `accumulated` and `summedIn`; to be called after all updates.
  void clearAccumulators();
  bool accumulates() const { return optimizer_.factors().accumulationFactor > 1; }

  const std::vector<ScalarVariable> &scalarVariables() const { return scalarVariables_; }

 private:
  TensorIndex accumulatedIn(const TensorId &id, const WeightUpdate &update, DataType accumType, float share);

  Graph &graph_;
  const Optimizer &optimizer_;
  std::vector<ScalarVariable> scalarVariables_;
  ExecutionContext context_ = ExecutionContext::AccumulateOuterFragment;
  std::vector<std::pair<TensorId, TensorIndex>> accumulators_;  // weight, accumulated gradient
};

void beginSgd(UpdateEmitter &emitter, const Optimizer &optimizer, WeightUpdate &update);
void finishSgd(UpdateEmitter &emitter, const Optimizer &optimizer, const WeightUpdate &update);
void beginAdam(UpdateEmitter &emitter, const Optimizer &optimizer, WeightUpdate &update);
void finishAdam(UpdateEmitter &emitter, const Optimizer &optimizer, const WeightUpdate &update);
void beginAdaptive(UpdateEmitter &emitter, const Optimizer &optimizer, WeightUpdate &update);
void finishAdaptive(UpdateEmitter &emitter, const Optimizer &optimizer, const WeightUpdate &update);
// Gradient in type `type`, unscaled, plus wd w when the mode adds decay to the gradient and `decayScalar` is not empty.
TensorIndex unscaledGradient(UpdateEmitter &emitter, const Optimizer &optimizer, const WeightUpdate &update,
                             DataType type, WeightDecayMode mode, const std::string &decayScalar);

}  // namespace popart::transforms
