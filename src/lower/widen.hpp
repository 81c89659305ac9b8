// Computes ops for which a backend has no 16-bit kernel in float32.
//   y = Op(x: FLOAT16)   becomes   y = Cast(Op(Cast(x, FLOAT)), FLOAT16)
// Invariant: every value is rounded to 16 bits once per op of the program; shapes and element types of operands and
// results do not change.
#pragma once
#include <functional>

#include <popart/ir.hpp>

#include "base/half_types.hpp"
#include "executable/kernel.hpp"

namespace popart::lower {

// Converts `wide`, a FLOAT result, to the 16-bit type.
using Narrow = std::function<TensorIndex(TensorIndex wide, DataType type)>;
// Replaces `op` by the same op with `attributes` on operands in FLOAT. Its FLOAT results that were 16-bit ones are
// narrowed. Constants are converted here. Meanings that depend on the type of operands are made explicit.
void computeInFloat(Op &op, Attributes attributes, const Narrow &narrow);

// Runs before decompositions, so that these compute in float32 too. Ops that `backend` supports in 16 bits, or not even
// in float32, do not change.
void widenHalves(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
