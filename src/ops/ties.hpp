// Gradients of functions that pick an extreme: tied elements share the gradient evenly, so that their parts sum to it
// (docs/decisions/0086-ties-and-kinks.md).
#pragma once
#include "base/half_types.hpp"
#include "ops/expression.hpp"

namespace popart::ops {

// 1 where `isTied` holds and 0 elsewhere, to be summed for a gradient of element type `type`: FLOAT for 16-bit types,
// which count to 2048 only.
inline Expression tieCount(Expression isTied, DataType type) {
  return cast(isTied, isHalf(type) ? DataType::FLOAT : type);
}

// What each of `count` tied elements gets of `gradient`.
inline Expression evenShare(Expression gradient, Expression count) {
  return cast(cast(gradient, count.type()) / count, gradient.type());
}

}  // namespace popart::ops
