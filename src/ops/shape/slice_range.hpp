// SliceRange: the elements start, start + step, … that a slice takes along one axis, after clamping (ONNX Slice-13).
#pragma once
#include <optional>
#include <vector>

#include <popart/attributes.hpp>
#include <popart/names.hpp>

namespace popart {
class Op;
}

namespace popart::ops {

struct SliceRange {
  int64_t start = 0;  // first element taken
  int64_t step = 1;   // not 0; 1 where fewer than two elements are taken
  int64_t size = 0;   // number of elements taken
};

// One range per axis of `shape` from attributes starts, ends, axes (default 0, 1, …) and steps (default 1). Negative
// starts and ends count from the end; both are clamped. Throws popart::error for lists of different lengths, repeated
// or out-of-range axes and a step of 0.
std::vector<SliceRange> sliceRanges(const Attributes &attributes, const Shape &shape);
// The attributes of one Slice that selects the same elements as `first` followed by `second`; empty if one of them is
// no Slice. Shapes must be known.
std::optional<Attributes> sliceOfSlice(const Op &first, const Op &second);
// The range of a Slice that takes consecutive elements of the last dimension and all elements of the others; empty for
// other ops. Shapes must be known.
std::optional<SliceRange> rangeOfLast(const Op &op);
// One range per axis of `shape` from attribute "strides" (missing ones are 1).
std::vector<SliceRange> subsampleRanges(const std::vector<int64_t> &strides, const Shape &shape);

}  // namespace popart::ops
