// What the passes of the pipeline share, and the passes that exist for training only.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipeline/prepare.hpp"

namespace popart::pipeline {

struct PassContext {
  PrepareRequest request;
  Ir &ir;
  Graph &main;
  std::set<TensorId> anchors;
  std::map<TensorId, TensorId> weightToGradient;
  Prepared result;

  explicit PassContext(PrepareRequest r);
  bool trains() const { return request.optimizer != nullptr; }
};

// ---- training passes (training.cpp)
void addLossOps(PassContext &context);  // LossSpec objects → ops; several are summed
void checkLoss(PassContext &context);   // exists, one element, floating point
void growBackwardPass(PassContext &context);
void addWeightUpdates(PassContext &context);

}  // namespace popart::pipeline
