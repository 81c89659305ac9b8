// Loops and arithmetic shared by reference kernels: wrapping integer arithmetic, iteration over broadcast operands and
// over coordinates.
#pragma once
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "backends/ref/ref.hpp"

namespace popart::ref {

// Integer arithmetic modulo 2^64, plain arithmetic for floats.
template <class V>
V add(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class V>
V subtract(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else
    return a - b;
}
template <class V>
V multiply(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}
// Integers: truncated quotient. Divisor 0 gives 0, and the smallest integer divided by -1 wraps; the caller reports
// both.
template <class V>
V divide(V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<V>) {
      if (b == -1) return subtract(V(0), a);
    }
  }
  return a / b;
}
// a - b trunc(a / b); integers: 0 for divisor 0, which the caller reports.
template <class V>
V truncatedRemainder(V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<V>) {
      if (b == -1) return 0;
    }
    return a % b;
  } else {
    return std::fmod(a, b);
  }
}
// a - b floor(a / b): the sign of b.
template <class V>
V flooredRemainder(V a, V b) {
  V r = truncatedRemainder(a, b);
  if constexpr (std::is_signed_v<V>) {
    if (r != 0 && ((r < 0) != (b < 0))) r += b;
  }
  return r;
}

template <class V>
bool isNan(V v) {
  if constexpr (std::is_floating_point_v<V>)
    return v != v;
  else
    return false;
}

// Element strides of `shape` in C order.
inline Shape elementStrides(const Shape &shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}
// Strides that read `shape` as if it were broadcast to `out`: 0 along broadcast axes.
inline Shape broadcastStrides(const Shape &shape, const Shape &out) {
  Shape own = elementStrides(shape), strides(out.size(), 0);
  const size_t lead = out.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) strides[lead + i] = shape[i] == 1 ? 0 : own[i];
  return strides;
}

// Walks all coordinates of a shape in C order and keeps one running offset per given stride list.
class Walk {
 public:
  Walk(Shape shape, std::vector<Shape> strides)
      : shape_(std::move(shape)),
        strides_(std::move(strides)),
        coordinates_(shape_.size(), 0),
        offsets_(strides_.size(), 0) {}
  const Shape &coordinates() const { return coordinates_; }
  int64_t offset(size_t k) const { return offsets_[k]; }
  void next() {
    for (size_t d = shape_.size(); d-- > 0;) {
      for (size_t k = 0; k < strides_.size(); ++k) offsets_[k] += strides_[k][d];
      if (++coordinates_[d] < shape_[d]) return;
      for (size_t k = 0; k < strides_.size(); ++k) offsets_[k] -= strides_[k][d] * shape_[d];
      coordinates_[d] = 0;
    }
  }

 private:
  Shape shape_;
  std::vector<Shape> strides_;
  Shape coordinates_;
  std::vector<int64_t> offsets_;
};

// Sizes of a shape around `axis`: elements before it, along it, after it.
struct AxisSplit {
  int64_t outer = 1, length = 1, inner = 1;
  AxisSplit(const Shape &shape, int64_t axis) {
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
      (i < axis ? outer : i == axis ? length : inner) *= shape[i];
  }
};

// The integer at position i of an index tensor of any integer type; UINT64 values above the signed range become its
// end.
inline int64_t indexAt(const View &v, int64_t i) {
  switch (v.info.dataType()) {
    case DataType::INT64:
      return v.as<int64_t>()[i];
    case DataType::INT32:
      return v.as<int32_t>()[i];
    case DataType::UINT32:
      return v.as<uint32_t>()[i];
    case DataType::UINT64:
      return static_cast<int64_t>(std::min<uint64_t>(v.as<uint64_t>()[i], INT64_MAX));
    case DataType::INT16:
      return v.as<int16_t>()[i];
    case DataType::UINT16:
      return v.as<uint16_t>()[i];
    case DataType::INT8:
      return v.as<int8_t>()[i];
    case DataType::UINT8:
      return v.as<uint8_t>()[i];
    default:
      throw internal_error("reference kernel: no index type: got {}", v.info.dataType());
  }
}
inline void setIndex(const View &v, int64_t i, int64_t value) {
  if (v.info.dataType() == DataType::INT64)
    v.as<int64_t>()[i] = value;
  else
    v.as<int32_t>()[i] = static_cast<int32_t>(value);
}

}  // namespace popart::ref
