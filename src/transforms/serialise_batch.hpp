// serialiseBatch: runs the samples of a batch in parts, one after the other, so that less memory is needed.
//
//   h = MatMul(x, w); y = Relu(h)
//   becomes, in two parts (method Static),
//   x0 = Slice(x); h0 = MatMul(x0, w); y0 = Relu(h0)
//   x1 = Slice(x); h1 = MatMul(x1, w); y1 = Relu(h1); y = Concat(y0, y1)
//
// Dynamic uses DynamicSlice and DynamicUpdate instead; Loop runs the ops of one part in a loop. Ops that work across
// the batch (sums over it, statistics of it, random numbers, the gradients of weights) do not change and read whole
// tensors, so results keep their bits.
#pragma once
#include "transforms/batch_groups.hpp"

namespace popart::transforms {

// Divides the ops of the graph. `kept`: ids of tensors that must exist whole. `firstGradient`: place in program order
// of the first op of the backward pass, or nullopt without one; set to its new place, as all places change. Parts have
// the hint kBatchPart. Throws popart::error as findBatchGroups.
void serialiseBatch(Graph &graph, const BatchSerialisation &options, const std::set<TensorId> &kept,
                    std::optional<int64_t> *firstGradient = nullptr);

}  // namespace popart::transforms
