// Products read constant weights of a few bits as they are stored.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   w = DequantizePacked(packed, scale, zero); y = FusedMatMul(a, w, extras…; trans_b, epilogue)
//   →  y = PackedMatMul(a, packed, scale, zero, extras…; epilogue)
// where weights, scales and zero points are constants and `backend` has a kernel. Packed zero points become one in each
// byte. Every bit of the result stays. Flat graphs only; runs after fuseEpilogues, before assignLayouts.
void multiplyPacked(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
