// Attention is computed again where its probabilities would otherwise be kept elsewhere.
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

// Marks what makes attention (RecomputeType::Recompute), for `recompute` to copy into the backward pass:
//   s = MatMul(q, k); … element-wise …; p = Softmax(s) over the last axis; y = MatMul(p, v)
// For programs that stash activations for other stages or keep them off chip: q, k and v go there alone, and lowering
// finds attention in the backward pass as it does in the plain program, with the same bits (decisions/0061). Ops that
// have a mark keep it. `firstGradient`: place in program order of the first op of the backward pass.
void recomputeAttention(Graph &graph, int64_t firstGradient);

}  // namespace popart::transforms
