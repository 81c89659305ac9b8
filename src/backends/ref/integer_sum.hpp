// The last operations of IntegerMatMul and IntegerConv: add the bias, scale the sum, add the zero point; each is
// optional.
#pragma once
#include <cmath>

#include "backends/ref/element.hpp"

namespace popart::ref {

// Writes element `place` of output 0, which is in column or channel `column`.
inline void storeIntegerSum(const Context &c, int64_t sum, int64_t column, int64_t place) {
  constexpr int kBias = 4, kScale = 5, kZero = 6;
  const auto at = [&](int input) { return c.in[input].size() == 1 ? 0 : column; };
  if (c.hasIn(kBias))
    sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(loadInt(c.in[kBias], at(kBias))));
  const auto wrapped = static_cast<int32_t>(sum);
  if (!c.hasIn(kScale)) {
    c.out[0].as<int32_t>()[place] = wrapped;
    return;
  }
  float v = static_cast<float>(wrapped) * c.in[kScale].as<float>()[at(kScale)];
  if (c.hasIn(kZero)) {
    const bool isSigned = c.out[0].info.dataType() == DataType::INT8;
    const float least = isSigned ? -128.0f : 0.0f;
    v = std::nearbyint(v) + static_cast<float>(loadInt(c.in[kZero], 0));
    v = v > least ? std::fmin(v, least + 255.0f) : least;  // NaN becomes `least` as well
  }
  store(c.out[0], place, static_cast<double>(v));
}

}  // namespace popart::ref
