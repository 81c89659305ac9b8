// Element access for reference kernels whose operands differ in type: values travel as double or int64.
#pragma once
#include <cstdint>

#include "backends/ref/ref.hpp"

namespace popart::ref {

// Element i of a real or BOOL tensor.
inline double load(const View &v, int64_t i) {
  switch (v.info.dataType()) {
    case DataType::FLOAT:
      return v.as<const float>()[i];
    case DataType::DOUBLE:
      return v.as<const double>()[i];
    case DataType::FLOAT16:
      return v.as<const Half>()[i];
    case DataType::BFLOAT16:
      return v.as<const BFloat16>()[i];
    case DataType::INT8:
      return v.as<const int8_t>()[i];
    case DataType::INT16:
      return v.as<const int16_t>()[i];
    case DataType::INT32:
      return v.as<const int32_t>()[i];
    case DataType::INT64:
      return static_cast<double>(v.as<const int64_t>()[i]);
    case DataType::UINT8:
      return v.as<const uint8_t>()[i];
    case DataType::UINT16:
      return v.as<const uint16_t>()[i];
    case DataType::UINT32:
      return v.as<const uint32_t>()[i];
    case DataType::UINT64:
      return static_cast<double>(v.as<const uint64_t>()[i]);
    case DataType::BOOL:
      return v.as<const bool>()[i];
    default:
      throw internal_error("reference kernel: element type {} cannot be read", v.info.dataType());
  }
}

// Element i of an integer tensor.
inline int64_t loadInt(const View &v, int64_t i) {
  switch (v.info.dataType()) {
    case DataType::INT8:
      return v.as<const int8_t>()[i];
    case DataType::INT16:
      return v.as<const int16_t>()[i];
    case DataType::INT32:
      return v.as<const int32_t>()[i];
    case DataType::INT64:
      return v.as<const int64_t>()[i];
    case DataType::UINT8:
      return v.as<const uint8_t>()[i];
    case DataType::UINT16:
      return v.as<const uint16_t>()[i];
    case DataType::UINT32:
      return v.as<const uint32_t>()[i];
    case DataType::UINT64:
      return static_cast<int64_t>(v.as<const uint64_t>()[i]);
    case DataType::BOOL:
      return v.as<const bool>()[i];
    default:
      throw internal_error("reference kernel: element type {} is no integer", v.info.dataType());
  }
}

inline void store(const View &v, int64_t i, double value) {
  dispatchAll(v.info.dataType(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      v.as<T>()[i] = T(static_cast<float>(value));
    else
      v.as<T>()[i] = static_cast<T>(value);
  });
}

// Index of the element of an operand of shape `operand` that element `index` of the broadcast result of shape `shape`
// uses.
inline int64_t broadcastIndex(int64_t index, const Shape &shape, const Shape &operand) {
  int64_t result = 0, stride = 1;
  for (size_t i = 0; i < operand.size(); ++i) {
    const int64_t dim = shape[shape.size() - 1 - i], operandDim = operand[operand.size() - 1 - i];
    if (operandDim != 1) result += index % dim * stride;
    index /= dim;
    stride *= operandDim;
  }
  return result;
}

// A scalar parameter: the tensor of input `input`, else the float attribute, else `fallback`.
inline double parameter(const Context &c, int input, const char *attribute, double fallback = 0.0) {
  if (c.hasIn(input)) return load(c.in[input], 0);
  return c.op.hasAttr(attribute) ? c.op.attrFloat(attribute) : fallback;
}

}  // namespace popart::ref
