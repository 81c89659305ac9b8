// The value of a binary16, for loops over many elements: without branches, so that compilers vectorise them.
#pragma once
#include <bit>
#include <cstdint>

namespace popart {

// Bit by bit the result of halfBitsToFloat (popart/half.hpp): NaNs keep their payload.
inline float widenHalfBits(uint16_t half) {
  constexpr uint32_t kBias = 112u << 23;  // from exponents of binary16 to those of binary32
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t special = magnitude >= 0x7c00u ? kBias : 0u;  // infinity and NaN have the highest exponent of both
  const uint32_t normal = (magnitude << 13) + kBias + special;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  return std::bit_cast<float>(sign | (magnitude < 0x400u ? subnormal : normal));
}

}  // namespace popart
