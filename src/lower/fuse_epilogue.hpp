// Products absorb what surrounds them: transposes of their operands become flags, and the element-wise op or cluster
// that is the only reader of the product becomes its epilogue, computed while the result tile is still in registers or
// cache.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   t = Transpose(w); p = MatMul(x, t); y = Gelu(p + b)
//   →  y = FusedMatMul(x, w, b; trans_b, epilogue{Gelu(product + b)})
// float32 products, and those that multiplyHalves made. Flat graphs only.
void fuseEpilogues(Ir &flat, const executable::Backend &backend);

//   t = Relu(x · scale + shift); y = FusedConv(t, w)
//   →  y = FusedConv(x, w, scale, shift; prologue{Relu(x · scale + shift)})
// where the backend has a kernel for that and only the convolution reads t. Runs after fuseEpilogues. Flat graphs
// only.
void fusePrologues(Ir &flat, const executable::Backend &backend);

//   p = FusedMatMul(x, w); y = FusedElementwise(p, c; body{… p[:, 0:4] … p[:, 4:8] …})
//   →  y = FusedMatMul(x, w, c; epilogue{… p[:, 0:4] … p[:, 4:8] …})
// where the backend has a kernel for that, as for gates of recurrent cells. Runs behind readViews, which lets
// element-wise ops read pieces. Flat graphs only.
void fuseGates(Ir &flat, const executable::Backend &backend);

// FusedMatMul(a, b) for MatMul(Cast(a), Cast(b)) of 16-bit tensors that `backend` multiplies as they are, transposes
// included: the product, in FLOAT, is that of the widened operands but for the order of its sums. Where it was rounded
// to the type of the operands, the product has that type. Convolutions and their gradients likewise, and a softmax
// outside of attention, where operands and result are of one type. Runs before fuseElementwise, which would take the
// casts.
void multiplyHalves(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
