// Where the elements of an op's result lie in its operand, for ops that only select, repeat or permute elements.
#pragma once
#include <optional>

#include <popart/op.hpp>

namespace popart::ops {

// Distances between neighbours along each dimension of a tensor in C order, of which elements are `step` apart.
Shape stridesInOrder(const Shape &shape, int64_t step = 1);

// In elements of the operand in C order: that of the result's first element, and between neighbours along each of the
// result's dimensions (0 where an element repeats, negative backwards).
struct StridedView {
  int64_t offset = 0;
  Shape strides;
};
// Of Transpose, Slice, Reverse, Expand, and Gather at one position that is a constant; the operand is input 0. nullopt
// for other ops. Shapes are known.
std::optional<StridedView> stridedView(const Op &op);

}  // namespace popart::ops
