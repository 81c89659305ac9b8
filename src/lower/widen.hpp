// Computes in float32 what a backend has no 16-bit kernel for.
//   y = Op(x: FLOAT16)   becomes   y = Cast(Op(Cast(x, FLOAT)), FLOAT16)
// Invariant: every value is rounded to 16 bits once per op of the program; shapes and element types at both ends stay.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Runs before decompositions, so that these compute in float32 as well. Ops that `backend` takes as they are, and those
// it does not take in float32 either, stay. Constants are converted here.
void widenHalves(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
