// Clusters of element-wise ops with one output shape become FusedElementwise ops: one loop over cache-sized blocks
// instead of one pass over memory per op.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Only ops that `backend` supports on its own are clustered. Flat graphs only.
void fuseElementwise(Ir &flat, const executable::Backend &backend);

// Whether the op computes each element from the elements at the same position, of types that fused ops take.
bool isElementwise(const Op &op);
// Whether the two must not become one op: the reader is a recomputed copy (RecomputeType::Recomputed) and the producer
// is not, so that it would run early, with the forward pass, and its results would be kept after all; or they belong to
// different cycles or stages of a pipeline (kCycle, kLane).
bool staysApart(const Op &producer, const Op &reader);
// Whether the ops are of different cycles or lanes of a pipeline.
bool runsApart(const Op &a, const Op &b);

}  // namespace popart::lower
