// Element access for reference kernels whose operands differ in type: values are converted to double or int64.
#pragma once
#include <cstdint>

#include "backends/ref/ref.hpp"
#include "base/small_types.hpp"

namespace popart::ref {

// Element i of a real or BOOL tensor.
inline double load(const View &v, int64_t i) {
  if (isSmall(v.info.dataType())) return static_cast<double>(smallValues(v.info.dataType())[v.as<const uint8_t>()[i]]);
  double value = 0;
  dispatchAll(v.info.dataType(), [&](auto zero) { value = static_cast<double>(v.as<const decltype(zero)>()[i]); });
  return value;
}

// Element i of an integer or BOOL tensor.
inline int64_t loadInt(const View &v, int64_t i) {
  int64_t value = 0;
  dispatch(kIntegerElements + Elements<bool>(), v.info.dataType(),
           [&](auto zero) { value = static_cast<int64_t>(v.as<const decltype(zero)>()[i]); });
  return value;
}

// `rounding` applies only to small types.
inline void store(const View &v, int64_t i, double value, SmallRounding rounding = {}) {
  if (const SmallFormat *format = smallFormat(v.info.dataType())) {
    v.as<uint8_t>()[i] = smallCode(*format, value, rounding);
    return;
  }
  dispatchAll(v.info.dataType(), [&](auto zero) { v.as<decltype(zero)>()[i] = asElement<decltype(zero)>(value); });
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
