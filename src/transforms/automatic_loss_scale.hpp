// A loss scale that is adapted to the gradients: FLOAT16 gradients are counted by size. After every period the scale is
// halved if too many of them are large, else doubled.
//
//   finalLossScale = lossScaling · lossScaleUpdateFactor             where the backward pass begins
//   counts = Σ Histogram(g, {edge})                                  over gradients g, micro-batches and replicas
//   s' = s / lossScaleUpdateFactor                                   for each scalar s that divides by the loss scale
//   lossScaleUpdateFactor = LossScaleUpdate(…, counts, areFinite)    after the weights' updates
//
// The counts of micro-batches are summed in Accum___autoLossScaleStats: small ones, large ones. With a period above 1 a
// counter of micro-batches runs from 0 to period · accumulationFactor - 1.
// Factor and counter are optimizer state: they are saved with the model, and a new optimizer does not change them.
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
  float binEdge = 0.125f;                   // a gradient above this share of the largest FLOAT16 number is large
  float threshold = 1e-7f;                  // largest acceptable share of large gradients
  int64_t period = 1;                       // updates of the weights between updates of the scale
};

// The results of earlier passes.
struct TrainingProgram {
  const UpdateRules &rules;
  const std::map<TensorId, TensorId> &weightToGradient;
  const std::map<TensorId, TensorId> &namedToGradient;
  const std::vector<ScalarVariable> &scalars;  // scalars of the optimizer that may change, including the loss scale
  TensorIndex areFinite;                       // see WeightUpdates; invalid: updates are never skipped
};

// Throws popart::error: the loss scale is constant, no gradient is FLOAT16, or a named tensor has no gradient.
void transformAutomaticLossScale(Graph &main, const AutomaticLossScale &settings, const TrainingProgram &program);

}  // namespace popart::transforms
