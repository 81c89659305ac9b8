// Gradients of functions that pick an extreme: equal elements get equal shares, which sum to the gradient
// (docs/decisions/0086-ties-and-kinks.md).
#pragma once
#include "base/half_types.hpp"
#include "ops/expression.hpp"

namespace popart::ops {

// 1 where `isTied` is true and 0 elsewhere, to be summed for a gradient of element type `type`: FLOAT for 16-bit types,
// which can only count to 2048.
inline Expression tieCount(Expression isTied, DataType type) {
  return cast(isTied, isHalf(type) ? DataType::FLOAT : type);
}

// The share of `gradient` for each of `count` tied elements.
inline Expression evenShare(Expression gradient, Expression count) {
  return cast(cast(gradient, count.type()) / count, gradient.type());
}

}  // namespace popart::ops
