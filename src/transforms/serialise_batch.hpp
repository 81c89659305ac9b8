// serialiseBatch: the samples of a batch run in parts, one after the other, so that less is in memory at once.
//
//   h = MatMul(x, w); y = Relu(h)
//   becomes, in two parts (method Static),
//   x0 = Slice(x); h0 = MatMul(x0, w); y0 = Relu(h0)
//   x1 = Slice(x); h1 = MatMul(x1, w); y1 = Relu(h1); y = Concat(y0, y1)
//
// Dynamic takes DynamicSlice and DynamicUpdate instead, Loop runs the ops of one part in a loop. What works across the
// batch (sums over it, statistics of it, random numbers, the gradients of weights) stays as it is and reads whole
// tensors, so that it gives the same bits.
#pragma once
#include "transforms/batch_groups.hpp"

namespace popart::transforms {

// Cuts the ops of the graph. `kept`: ids of tensors that must be there whole. `firstGradient`: place in program order
// of the first op of the backward pass, none: there is no backward pass; set to its new place, as all places change.
// Parts carry the hint kBatchPart. Throws popart::error as findBatchGroups.
void serialiseBatch(Graph &graph, const BatchSerialisation &options, const std::set<TensorId> &kept,
                    std::optional<int64_t> *firstGradient = nullptr);

}  // namespace popart::transforms
