// 16-bit numbers of kernel tests, with the conversions of <popart/half.hpp>.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include <popart/datatype.hpp>
#include <popart/half.hpp>

#include "random_floats.hpp"

namespace popart::test {

using Halves = std::vector<uint16_t>;
constexpr DataType kHalfTypes[] = {DataType::FLOAT16, DataType::BFLOAT16};

inline Halves halved(DataType type, const std::vector<float> &values) {
  Halves result;
  for (float v : values) result.push_back(type == DataType::FLOAT16 ? floatToHalfBits(v) : floatToBFloat16Bits(v));
  return result;
}

inline std::vector<float> widened(DataType type, const Halves &halves) {
  std::vector<float> result;
  for (uint16_t h : halves) result.push_back(type == DataType::FLOAT16 ? halfBitsToFloat(h) : bfloat16BitsToFloat(h));
  return result;
}

inline float roundedTo(DataType type, float value) { return widened(type, halved(type, {value}))[0]; }

// Whole numbers from -2 to 2: sums of their products are exact, in whatever order.
inline std::vector<float> integers(int64_t count, unsigned seed) {
  std::vector<float> values = randomFloats(count, seed);
  for (float &v : values) v = std::round(2.0f * v);
  return values;
}

}  // namespace popart::test
