// BatchNormalization with constant parameters after a convolution with constant weights is folded into those weights:
//   BN(Conv(x, W, B))  →  Conv(x, W a, (B - mean) a + bias)   with a = scale / sqrt(var + epsilon) per output channel.
// In other places it is expanded, so that it fuses with element-wise ops next to it:
//   BN(x)  →  x a + (bias - mean a)
// Invariant: only if everything except x is constant, and a convolution only if its result has no other reader.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

void foldBatchNorms(Ir &flat);

}  // namespace popart::lower
