// Operands of fused rows that are parts of a tensor: slices, transposes and rows of it, read in place.
#pragma once
#include <optional>
#include <vector>

#include <popart/opdef.hpp>

#include "ops/shape/strided_view.hpp"

namespace popart::ops {

// Element (i, j, …) of the operand is element offset + i · strides[0] + j · strides[1] + … of the tensor in C order. No
// stride is negative.
struct OperandView {
  int64_t offset = 0;
  Shape sizes, strides;
};

// The view of all elements of a tensor.
OperandView wholeOf(const Shape &shape);
// The dimensions of a view in another order: dimension i of the result is dimension perm[i].
OperandView permuted(const OperandView &view, const std::vector<int64_t> &perm);
// `view` of an op's result, as a view of the op's operand; `of` says where the elements of the result, of `shape`, are.
// nullopt if the distance between two elements of the operand is not the same everywhere, or negative.
std::optional<OperandView> viewThrough(const OperandView &view, const Shape &shape, const StridedView &of);

// A view as an attribute, `view_<operand>`: [offset, sizes…, strides…]. The reverse requires that the op has it and
// that it was checked by `viewInside`.
std::vector<int64_t> toInts(const OperandView &view);
OperandView viewOf(const Op &op, const char *name);

// The sizes of the view in attribute `view` of a tensor with this number of elements. Fails unless it has at least two
// dimensions and stays inside the tensor.
Shape viewInside(InferContext &c, const char *view, int64_t elements);
// The shape as which a row reads input `input`: that of the attribute `view`, or with permuted dimensions (`perm`), or
// the input's own. Fails for both attributes, and as the function above.
Shape arranged(InferContext &c, int input, const char *perm, const char *view);

}  // namespace popart::ops
