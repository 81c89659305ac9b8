// Recomputes attention as a whole if its probabilities would otherwise be kept off chip or stashed, or if a part of it
// is recomputed.
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

enum class WhichAttention { All, Marked };  // Marked: attention with an op that is already marked

// Marks the ops of attention (RecomputeType::Recompute), so that `recompute` copies them into the backward pass:
//   s = MatMul(q · number, k · number); … element-wise …; p = Softmax(s) over the last axis; y = MatMul(p, v)
// Only q, k and v are kept, and lowering finds attention in the backward pass as in the plain program, with the same
// bits (decisions/0061). Lowering combines the numbers, so they are copied too. `All`: for programs that stash
// activations for other stages or keep them off chip. Ops that have a mark keep it. `firstGradient`: place in program
// order of the first op of the backward pass.
void recomputeAttention(Graph &graph, int64_t firstGradient, WhichAttention which);

}  // namespace popart::transforms
