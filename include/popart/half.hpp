// 16-bit floating point storage types. Arithmetic is in float; conversion rounds to nearest even (IEEE 754-2008
// binary16; bfloat16 = the upper half of binary32). NaN stays NaN, overflow gives infinity.
#pragma once
#include <cstdint>

namespace popart {

// Bits of the nearest value, and the value of bits; no exception, no flag.
uint16_t floatToHalfBits(float value);
float halfBitsToFloat(uint16_t bits);
uint16_t floatToBFloat16Bits(float value);
inline float bfloat16BitsToFloat(uint16_t bits) {
  union {
    uint32_t u;
    float f;
  } v{static_cast<uint32_t>(bits) << 16};
  return v.f;
}

// IEEE binary16 in two bytes; converts to and from float as above.
class Half {
 public:
  Half() = default;
  Half(float value) : bits_(floatToHalfBits(value)) {}
  operator float() const { return halfBitsToFloat(bits_); }
  static Half fromBits(uint16_t bits) {  // takes any bits
    Half h;
    h.bits_ = bits;
    return h;
  }
  uint16_t bits() const { return bits_; }

 private:
  uint16_t bits_ = 0;
};

// The upper half of a binary32 in two bytes.
class BFloat16 {
 public:
  BFloat16() = default;
  BFloat16(float value) : bits_(floatToBFloat16Bits(value)) {}
  operator float() const { return bfloat16BitsToFloat(bits_); }
  static BFloat16 fromBits(uint16_t bits) {  // takes any bits
    BFloat16 b;
    b.bits_ = bits;
    return b;
  }
  uint16_t bits() const { return bits_; }

 private:
  uint16_t bits_ = 0;
};

// compat: PopART's name.
using float16_t = Half;

}  // namespace popart
