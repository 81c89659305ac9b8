// Stochastic rounding of floats to the 16-bit storage types. A value between two neighbours of the type is rounded to
// either, with a probability that makes the expected result equal to the value:
//
//   neighbours a < |x| < b:   the result is b where uniform < (|x| - a) / (b - a), else a; with the sign of x
//
// Values of the type, including signed zeros, do not change. Infinities, NaN and magnitudes above the largest number of
// the type are rounded as in half.hpp, so that only values overflow that would overflow when rounded to nearest.
// `uniform` is a multiple of 2^-24 in [0, 1) (uniformFromWord). Fractions of normal numbers have at most 16 bits, so
// their probabilities are exact.
#pragma once
#include <bit>
#include <cstdint>

#include <popart/half.hpp>

namespace popart {

// Bits of the FLOAT16 that `value` is rounded to. Without branches, so that loops are vectorised.
inline uint16_t roundToHalfBits(float value, float uniform) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  // from 2^-14 on: 13 bits of the mantissa are the fraction; below: multiples of 2^-24
  const bool isNormal = magnitude >= 0x38800000u;
  const float scaled = std::bit_cast<float>(isNormal ? 0u : magnitude) * 0x1p24f;
  const auto whole = static_cast<int32_t>(scaled);
  const float fraction =
      isNormal ? static_cast<float>(magnitude & 0x1fffu) * 0x1p-13f : scaled - static_cast<float>(whole);
  const uint32_t below = isNormal ? (magnitude - 0x38000000u) >> 13 : static_cast<uint32_t>(whole);
  const uint32_t drawn = below + (uniform < fraction ? 1u : 0u);
  const uint32_t overflow = magnitude >= 0x477ff000u ? 0x7c00u : 0x7bffu;
  const uint32_t quiet = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  const uint32_t result = magnitude > 0x7f800000u ? quiet : magnitude > 0x477fe000u ? overflow : drawn;
  return static_cast<uint16_t>(sign | result);
}

// Bits of the BFLOAT16 that `value` is rounded to.
inline uint16_t roundToBFloat16Bits(float value, float uniform) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const float fraction = static_cast<float>(bits & 0xffffu) * 0x1p-16f;
  const uint32_t drawn = (bits >> 16) + (uniform < fraction ? 1u : 0u);
  const uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? quiet : magnitude > 0x7f7f0000u ? nearest : drawn);
}

}  // namespace popart
