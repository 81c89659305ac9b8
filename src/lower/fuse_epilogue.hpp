// Products absorb ops around them: transposes of their operands become flags, and the element-wise op or cluster that
// is the only reader of the product becomes its epilogue, computed while the result tile is still in registers or
// cache.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   t = Transpose(w); p = MatMul(x, t); y = Gelu(p + b)
//   →  y = FusedMatMul(x, w, b; trans_b, epilogue{Gelu(product + b)})
// For float32 products, and those that multiplyHalves made. Flat graphs only.
void fuseEpilogues(Ir &flat, const executable::Backend &backend);

//   t = Relu(x · scale + shift); y = FusedConv(t, w)
//   →  y = FusedConv(x, w, scale, shift; prologue{Relu(x · scale + shift)})
// if the backend has a kernel for it and only the convolution reads t. Runs after fuseEpilogues. Flat graphs
// only.
void fusePrologues(Ir &flat, const executable::Backend &backend);

//   p = FusedMatMul(x, w); y = FusedElementwise(p, c; body{… p[:, 0:4] … p[:, 4:8] …})
//   →  y = FusedMatMul(x, w, c; epilogue{… p[:, 0:4] … p[:, 4:8] …})
// if the backend has a kernel for it, as for gates of recurrent cells. Runs after readViews, which lets element-wise
// ops read pieces. Flat graphs only.
void fuseGates(Ir &flat, const executable::Backend &backend);

// Makes FusedMatMul(a, b) of MatMul(Cast(a), Cast(b)) for 16-bit tensors that `backend` can multiply, also transposed.
// The product, in FLOAT, equals that of the widened operands except for the order of its sums. If it was rounded to the
// type of the operands, it has that type. The same for convolutions and their gradients, and for a softmax outside of
// attention, if operands and result have one type. Runs before fuseElementwise, which would absorb the
// casts.
void multiplyHalves(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
