// Where the elements of an op's result are in its operand, for ops that only select, repeat or permute elements.
#pragma once
#include <optional>
#include <vector>

#include <popart/op.hpp>

namespace popart::ops {

// Distances between neighbours along each dimension of a tensor in C order whose elements are `step` apart.
Shape stridesInOrder(const Shape &shape, int64_t step = 1);

// Position d of the result is where `perm`, a permutation of 0, 1, …, has d.
std::vector<int64_t> inversePermutation(const std::vector<int64_t> &perm);

// The position of the result's first element, and the distances between neighbours along each of the result's
// dimensions (0 if an element repeats, negative backwards), in elements of the operand in C order.
struct StridedView {
  int64_t offset = 0;
  Shape strides;
};
// For Transpose, Slice, Reverse, Expand, and for Gather at one constant position; the operand is input 0. Empty for
// other ops. Shapes must be known.
std::optional<StridedView> stridedView(const Op &op);

}  // namespace popart::ops
