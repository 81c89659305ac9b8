// Positions that index tensors select, checked against the tensor's size: -1 means out of range, which is reported.
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

// The position in [0, size) that index i of input `operand` selects; negative indices count from the end. Reports an
// index out of range and returns -1.
inline int64_t placeOf(const Context &c, int operand, int64_t i, int64_t size) {
  const int64_t index = indexAt(c.in[operand], i), at = positionOf(index, size, true);
  if (at < 0) c.report(executable::FailureKind::Index, operand, i, index, -size, size - 1);
  return at;
}

// f(offset in `data` or -1, i) for every element i of the index tensor, input 1, of the same rank (GatherElements,
// ScatterElements).
template <class F>
void forEachElementPosition(const Context &c, const Shape &data, F f) {
  const View &indices = c.in[1];
  const int64_t axis = ops::axisOf(c.op.attributes, static_cast<int64_t>(data.size()));
  const Shape strides = elementStrides(data);
  Shape others = strides;
  if (!data.empty()) others[axis] = 0;
  Walk walk(indices.shape(), {others});
  for (int64_t i = 0; i < indices.size(); ++i, walk.next()) {
    const int64_t at = placeOf(c, 1, i, data[axis]);
    f(at < 0 ? -1 : walk.offset(0) + at * strides[axis], i);
  }
}

// f(offset of a slice in `data` or -1, offset of the slice in the packed slices, elements per slice) for every
// coordinate tuple in the last dimension of the index tensor, input 1 (GatherND, ScatterND); the first `batch`
// dimensions are shared.
template <class F>
void forEachSlicePosition(const Context &c, const Shape &data, int64_t batch, F f) {
  const View &indices = c.in[1];
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
      const int64_t position = placeOf(c, 1, t * depth + d, data[batch + d]);
      at = position < 0 ? -1 : at + position * strides[batch + d];
    }
    f(at, t * elements, elements);
  }
}

}  // namespace popart::ref
