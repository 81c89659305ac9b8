// Turns clusters of element-wise ops with the same output shape into FusedElementwise ops: one loop over blocks that
// fit into the cache, instead of a pass over memory for each op.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Only ops that `backend` supports on its own are clustered. Flat graphs only.
void fuseElementwise(Ir &flat, const executable::Backend &backend);

// Whether the op computes each element from the elements at the same position, and has types that fused ops accept.
bool isElementwise(const Op &op);
// Whether the two must not be fused. Either the reader is a recomputed copy (RecomputeType::Recomputed) and the
// producer is not: the copy would run early, with the forward pass, and its results would be kept after all. Or they
// belong to different cycles or stages of a pipeline (kCycle, kLane).
bool staysApart(const Op &producer, const Op &reader);
// Whether the ops belong to different cycles or lanes of a pipeline.
bool runsApart(const Op &a, const Op &b);

}  // namespace popart::lower
