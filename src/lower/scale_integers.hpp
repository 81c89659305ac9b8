// Integer products, as in dynamically quantised models, apply the scale that converts them to FLOAT.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   p = IntegerMatMul(a, b); f = Cast(p) to FLOAT; y = Mul(f, scale)
//   →  y = IntegerMatMul(a, b, scale)
// for one scale, or one for each column (channel of IntegerConv), if nothing else reads p and f and `backend` has a
// kernel. Results keep their bits. Flat graphs only; runs before fuseElementwise, which would absorb the Cast.
void scaleIntegerProducts(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
