// Products of integers that are scaled to FLOAT end so by themselves, as dynamically quantised models have them.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   p = IntegerMatMul(a, b); f = Cast(p) to FLOAT; y = Mul(f, scale)
//   →  y = IntegerMatMul(a, b, scale)
// for one scale, or one for each column (channel of IntegerConv), where nothing else reads p and f and `backend` has a
// kernel. Every bit stays. Flat graphs only; runs before fuseElementwise, which would take the Cast.
void scaleIntegerProducts(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
