// Replaces products around a softmax by attention without the matrix of scores.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// softmax(steps(q @ k)) @ v → FusedAttention, with element-wise steps, and its gradients → FusedAttentionGrad, if
// nothing else reads the values in between and the backend accepts both. Sums are made in another order, factors of q
// and k are combined, and the 16-bit rounding of probabilities and of their gradients is left out. Flat graphs only.
void fuseAttention(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
