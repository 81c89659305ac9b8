// A loss scale that follows the gradients: FLOAT16 gradients are counted by size, and every few updates the scale is
// halved when too many of them are large, doubled otherwise.
//
//   finalLossScale = lossScaling · lossScaleUpdateFactor             where the backward pass begins
//   counts = Σ Histogram(g, {edge})                                  over gradients g, micro-batches and replicas
//   s' = s / lossScaleUpdateFactor                                   for each scalar s that takes the loss scale out
//   lossScaleUpdateFactor = LossScaleUpdate(…, counts, areFinite)    after the weights' updates
//
// The counts of micro-batches are summed in Accum___autoLossScaleStats: small ones, large ones. With a period above 1 a
// counter of micro-batches runs from 0 to period · accumulationFactor - 1.
// Factor and counter are optimizer state: saved with the model, and not changed by a new optimizer.
#pragma once
#include <map>
#include <vector>

#include <popart/graph.hpp>
#include <popart/updaterule.hpp>

#include "transforms/add_optimizer.hpp"

namespace popart::transforms {

struct AutomaticLossScale {
  enum class Tracked : uint8_t { AllGradients, ProductGradients, Named };
  Tracked tracked = Tracked::AllGradients;  // of the backward pass; views are left out
  std::vector<TensorId> named;              // Named: tensors of the model whose gradients are counted
  float binEdge = 0.125f;                   // from this share of the largest FLOAT16 number on a gradient is large
  float threshold = 1e-7f;                  // share of large gradients that is too many
  int64_t period = 1;                       // updates of the weights between updates of the scale
};

// What earlier passes made of the model.
struct TrainingProgram {
  const UpdateRules &rules;
  const std::map<TensorId, TensorId> &weightToGradient;
  const std::map<TensorId, TensorId> &namedToGradient;
  const std::vector<ScalarVariable> &scalars;  // the optimizer's that may change, the loss scale among them
  TensorIndex areFinite;                       // see WeightUpdates; invalid: updates are never left out
};

// Throws popart::error: a loss scale that is constant, no FLOAT16 gradient to count, a named tensor without a gradient.
void transformAutomaticLossScale(Graph &main, const AutomaticLossScale &settings, const TrainingProgram &program);

}  // namespace popart::transforms
