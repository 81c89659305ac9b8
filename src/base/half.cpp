// Conversions between float and the 16-bit storage types, round to nearest even.
#include <popart/half.hpp>

#include "base/half_bits.hpp"

namespace popart {

uint16_t floatToHalfBits(float value) { return narrowToHalfBits(value); }

float halfBitsToFloat(uint16_t half) { return widenHalfBits(half); }

uint16_t floatToBFloat16Bits(float value) { return narrowToBFloat16Bits(value); }

}  // namespace popart
