// Type dispatch for reference kernels (see ref.hpp).
#pragma once
#include <popart/datatype.hpp>
#include <popart/error.hpp>
#include <popart/half.hpp>

namespace popart::ref {

template <class F>
void dispatchFloat(DataType type, F &&f) {
  switch (type) {
    case DataType::FLOAT:
      return f(float{});
    case DataType::DOUBLE:
      return f(double{});
    case DataType::FLOAT16:
      return f(Half{});
    case DataType::BFLOAT16:
      return f(BFloat16{});
    default:
      throw internal_error("reference kernel: no floating type: got {}", type);
  }
}

template <class F>
void dispatchNumeric(DataType type, F &&f) {
  switch (type) {
    case DataType::INT8:
      return f(int8_t{});
    case DataType::INT16:
      return f(int16_t{});
    case DataType::INT32:
      return f(int32_t{});
    case DataType::INT64:
      return f(int64_t{});
    case DataType::UINT8:
      return f(uint8_t{});
    case DataType::UINT16:
      return f(uint16_t{});
    case DataType::UINT32:
      return f(uint32_t{});
    case DataType::UINT64:
      return f(uint64_t{});
    default:
      return dispatchFloat(type, f);
  }
}

template <class F>
void dispatchAll(DataType type, F &&f) {
  if (type == DataType::BOOL) return f(bool{});
  dispatchNumeric(type, f);
}

template <class T>
struct Accumulator {
  using type = double;
};
template <>
struct Accumulator<int8_t> {
  using type = int64_t;
};
template <>
struct Accumulator<int16_t> {
  using type = int64_t;
};
template <>
struct Accumulator<int32_t> {
  using type = int64_t;
};
template <>
struct Accumulator<int64_t> {
  using type = int64_t;
};
template <>
struct Accumulator<uint8_t> {
  using type = uint64_t;
};
template <>
struct Accumulator<uint16_t> {
  using type = uint64_t;
};
template <>
struct Accumulator<uint32_t> {
  using type = uint64_t;
};
template <>
struct Accumulator<uint64_t> {
  using type = uint64_t;
};
template <>
struct Accumulator<bool> {
  using type = int64_t;
};
template <class T>
using AccumulatorT = typename Accumulator<T>::type;

}  // namespace popart::ref
