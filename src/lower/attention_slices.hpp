// Attention of a joint projection, without copies of its slices:
//
//   q, k, v = Transpose(Slice(x)) …;  y = FusedAttention(q, k, v)
//   →  y = FusedAttention(x, x, x) {view_q, view_k, view_v}
//
//   dq, dk, dv = FusedAttentionGrad(…);  dx = Concat(Transpose(dq), …)
//   →  dx = FusedAttentionGrad(…) {joint, view_dq, view_dk, view_dv}, its fourth result
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Both run after fuseAttention, on flat graphs. Rows or columns of the matrices stay contiguous.

// For operands that only attention and its gradient read, if those operands together contain every element of the
// tensor: then it is in memory instead of them, and no program needs more. Not for slices of variables, which an update
// may change before the gradient reads them.
void readSlicesInPlace(Ir &flat, const executable::Backend &backend);
// For the gradients that one Concat reads, if it reads nothing else and nothing else reads them.
void writeSlicesInPlace(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
