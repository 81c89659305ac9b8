// Products read constant weights of a few bits in their stored form.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   w = DequantizePacked(packed, scale, zero); y = FusedMatMul(a, w, extras…; trans_b, epilogue)
//   →  y = PackedMatMul(a, packed, scale, zero, extras…; epilogue)
// if weights, scales and zero points are constants and `backend` has a kernel. Packed zero points are converted to one
// per byte. Results keep their bits. Flat graphs only; runs after fuseEpilogues, before assignLayouts.
void multiplyPacked(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
