// Computes both extremes of a tensor in one pass over it.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   a = ReduceMin(x); b = ReduceMax(x)   →   a, b = ReduceExtremes(x)
// if axes and shapes are the same and `backend` has a kernel. Flat graphs only.
void joinExtremes(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
