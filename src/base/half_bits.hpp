// Floats from the bits of 16-bit types and back, for loops over many: no branch, so that compilers make vectors of
// them.
#pragma once
#include <bit>
#include <cstdint>

namespace popart {

// Of bits, by a mask: where one of the two needs a float operation, compilers make a branch of `isTrue ? a : b`.
inline uint32_t selectBits(bool isTrue, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(isTrue);
  return (a & mask) | (b & ~mask);
}

// As halfBitsToFloat (popart/half.hpp), to the bit: NaNs keep their payload.
inline float widenHalfBits(uint16_t half) {
  constexpr uint32_t kBias = 112u << 23;  // from exponents of binary16 to those of binary32
  const uint32_t magnitude = half & 0x7fffu;
  const auto isBelow = [&](int32_t limit) { return static_cast<int32_t>(magnitude) < limit; };  // as vectors compare
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t special = isBelow(0x7c00) ? 0u : kBias;  // infinity and NaN have the highest exponent of both
  const uint32_t normal = (magnitude << 13) + kBias + special;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  return std::bit_cast<float>(sign | selectBits(isBelow(0x400), subnormal, normal));
}

// As floatToHalfBits.
inline uint16_t narrowToHalfBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto isBelow = [&](int32_t limit) { return static_cast<int32_t>(magnitude) < limit; };
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  // Below 2^-14 values are multiples of 2^-24. 0.5 has an ulp of 2^-24: the addition rounds.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const uint32_t finite = selectBits(isBelow(0x38800000), subnormal, normal);
  const uint32_t infinite = isBelow(0x7f800001) ? 0x7c00u : nan;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | selectBits(isBelow(0x477ff000), finite, infinite));  // 65520
}

// As floatToBFloat16Bits.
inline uint16_t narrowToBFloat16Bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t nan = (bits >> 16) | 0x40u, number = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(static_cast<int32_t>(bits & 0x7fffffffu) > 0x7f800000 ? nan : number);
}

}  // namespace popart
