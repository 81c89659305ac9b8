// BatchNormalization with constant parameters after a convolution with constant weights is folded into those weights:
//   BN(Conv(x, W, B))  →  Conv(x, W a, (B - mean) a + bias)   with a = scale / sqrt(var + epsilon) per output channel.
// Elsewhere it is expanded, so that it fuses with its element-wise neighbours:
//   BN(x)  →  x a + (bias - mean a)
// Invariant: only where everything but x is constant; a convolution only when its result has no other reader.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

void foldBatchNorms(Ir &flat);

}  // namespace popart::lower
