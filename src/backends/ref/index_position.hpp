// Positions that index tensors point at, checked against the tensor's size: -1 means out of range.
#pragma once
#include <algorithm>

#include "backends/ref/loops.hpp"
#include "ops/rules.hpp"

namespace popart::ref {

// index in [0, size), or with `wrap` in [-size, size) counting from the end; otherwise -1.
inline int64_t positionOf(int64_t index, int64_t size, bool wrap) {
  if (wrap && index < 0) index = index < -size ? -1 : index + size;
  return index >= 0 && index < size ? index : -1;
}

// f(offset in `data` or -1, i) for every element i of an index tensor of the same rank (GatherElements, ScatterElements).
template <class F>
void forEachElementPosition(const Attributes &attributes, const Shape &data, const View &indices, F f) {
  const int64_t axis = ops::axisOf(attributes, static_cast<int64_t>(data.size()));
  const Shape strides = elementStrides(data);
  Shape others = strides;
  if (!data.empty()) others[axis] = 0;
  Walk walk(indices.shape(), {others});
  for (int64_t i = 0; i < indices.size(); ++i, walk.next()) {
    const int64_t at = positionOf(indexAt(indices, i), data[axis], true);
    f(at < 0 ? -1 : walk.offset(0) + at * strides[axis], i);
  }
}

// f(offset of a slice in `data` or -1, offset of the slice in the packed slices, elements per slice) for every coordinate
// tuple in the last dimension of `indices` (GatherND, ScatterND); the first `batch` dimensions are shared.
template <class F>
void forEachSlicePosition(const Shape &data, const View &indices, int64_t batch, F f) {
  const Shape strides = elementStrides(data);
  const int64_t depth = indices.shape().back();
  const int64_t tuples = indices.size() / std::max<int64_t>(depth, 1);
  const int64_t elements = elementCount(Shape(data.begin() + batch + depth, data.end()));
  const int64_t batches = elementCount(Shape(data.begin(), data.begin() + batch));
  const int64_t perBatch = batches == 0 ? 0 : tuples / batches;
  const int64_t batchElements = elementCount(Shape(data.begin() + batch, data.end()));
  for (int64_t t = 0; t < batches * perBatch; ++t) {
    int64_t at = t / perBatch * batchElements;
    for (int64_t d = 0; d < depth && at >= 0; ++d) {
      const int64_t position = positionOf(indexAt(indices, t * depth + d), data[batch + d], true);
      at = position < 0 ? -1 : at + position * strides[batch + d];
    }
    f(at, t * elements, elements);
  }
}

}  // namespace popart::ref
