// Reference kernels of Resize and its gradient: the linear map of each axis, one axis after the other. If no element is
// computed, elements of any type are copied.
#include <cstring>
#include <vector>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "ops/shape/resize_taps.hpp"

namespace popart::ref {
namespace {

using ops::AxisTaps;

// Calls f(row, result element, operand element of index 0, distance between elements along the axis) for all rows along
// `axis` of a tensor of `shape`, and changes `shape` to the shape of the result.
template <class F>
void forRows(Shape &shape, size_t axis, const AxisTaps &map, F &&f) {
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < shape.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : shape[d];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t r = 0; r < map.rows(); ++r)
      for (int64_t i = 0; i < inner; ++i) f(r, (o * map.rows() + r) * inner + i, o * shape[axis] * inner + i, inner);
  shape[axis] = map.rows();
}

int64_t elementsWith(Shape shape, size_t axis, int64_t length) {
  shape[axis] = length;
  return elementCount(shape);
}

void copyElements(const Context &c, const std::vector<AxisTaps> &maps) {
  Shape shape = c.in[0].shape();
  std::vector<int64_t> from(static_cast<size_t>(c.in[0].size()));
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int64_t>(i);
  for (size_t axis = 0; axis < maps.size(); ++axis) {
    std::vector<int64_t> next(static_cast<size_t>(elementsWith(shape, axis, maps[axis].rows())));
    forRows(shape, axis, maps[axis], [&](int64_t r, int64_t to, int64_t first, int64_t step) {
      next[to] = from[first + maps[axis].index[r] * step];
    });
    from = std::move(next);
  }
  const size_t bytes = getDataTypeInfo(c.in[0].info.dataType()).nbytes;
  for (size_t i = 0; i < from.size(); ++i)
    std::memcpy(c.out[0].as<char>() + i * bytes, c.in[0].as<char>() + static_cast<size_t>(from[i]) * bytes, bytes);
}

void applyMaps(const Context &c, const std::vector<AxisTaps> &maps) {
  bool selects = true;
  for (const AxisTaps &map : maps) selects &= map.selects();
  if (selects) return copyElements(c, maps);
  Shape shape = c.in[0].shape();
  std::vector<double> values(static_cast<size_t>(c.in[0].size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = load(c.in[0], static_cast<int64_t>(i));
  for (size_t axis = 0; axis < maps.size(); ++axis) {
    const AxisTaps &map = maps[axis];
    std::vector<double> next(static_cast<size_t>(elementsWith(shape, axis, map.rows())));
    forRows(shape, axis, map, [&](int64_t r, int64_t to, int64_t first, int64_t step) {
      double sum = map.offset.empty() ? 0 : map.offset[r];
      for (int64_t k = r * map.count; k < (r + 1) * map.count; ++k)
        if (map.weight[k] != 0) sum += map.weight[k] * values[first + map.index[k] * step];
      next[to] = sum;
    });
    values = std::move(next);
  }
  for (size_t i = 0; i < values.size(); ++i) store(c.out[0], static_cast<int64_t>(i), values[i]);
}

void resize(const Context &c) { applyMaps(c, ops::forwardMaps(c.op.attributes, c.in[0].shape())); }
void resizeGrad(const Context &c) { applyMaps(c, ops::gradientMaps(c.op.attributes, c.out[0].shape())); }

constexpr Entry kResizeKernels[] = {{"Resize", resize}, {"ResizeGrad", resizeGrad}};

}  // namespace

std::span<const Entry> resizeKernels() { return kResizeKernels; }

}  // namespace popart::ref
