// Attention is computed again as a whole where its probabilities would otherwise be kept elsewhere, or a part of it is
// computed again.
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

enum class WhichAttention { All, Marked };  // Marked: of which an op is marked already

// Marks what makes attention (RecomputeType::Recompute), for `recompute` to copy into the backward pass:
//   s = MatMul(q · number, k · number); … element-wise …; p = Softmax(s) over the last axis; y = MatMul(p, v)
// q, k and v alone are kept, and lowering finds attention in the backward pass as it does in the plain program, with
// the same bits (decisions/0061): it takes the numbers together, so that they are copied too. `All`: for programs that
// stash activations for other stages or keep them off chip. Ops that have a mark keep it. `firstGradient`: place in
// program order of the first op of the backward pass.
void recomputeAttention(Graph &graph, int64_t firstGradient, WhichAttention which);

}  // namespace popart::transforms
