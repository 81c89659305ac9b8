// Computes in float32 what a backend has no 16-bit kernel for.
//   y = Op(x: FLOAT16)   becomes   y = Cast(Op(Cast(x, FLOAT)), FLOAT16)
// Invariant: every value is rounded to 16 bits once per op of the program; shapes and element types at both ends stay.
#pragma once
#include <functional>

#include <popart/ir.hpp>

#include "base/half_types.hpp"
#include "executable/kernel.hpp"

namespace popart::lower {

// Gives `wide`, a FLOAT result, the 16-bit type.
using Narrow = std::function<TensorIndex(TensorIndex wide, DataType type)>;
// Puts in the place of `op` the same op with `attributes` on operands in FLOAT; its FLOAT results that were 16-bit ones
// are narrowed. Constants are converted here; what an op's meaning takes from the type of its operands is stated.
void computeInFloat(Op &op, Attributes attributes, const Narrow &narrow);

// Runs before decompositions, so that these compute in float32 as well. Ops that `backend` takes as they are, and those
// it does not take in float32 either, stay.
void widenHalves(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
