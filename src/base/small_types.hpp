// Element types of at most 256 values that C++ does not have: floats of four to eight bits, integers of two and four.
// One table of formats defines the codes; all conversions are derived from it.
//
//              bits  exponent  mantissa  bias  largest      not a number    infinity   zero of either sign
//   FLOAT8E4M3FN  8         4         3     7      448   all ones                -      yes
//   FLOAT8_143    8         4         3     8      240   negative zero           -       no
//   FLOAT8E5M2    8         5         2    15    57344   exponent of ones     as IEEE   yes
//   FLOAT8_152    8         5         2    16    57344   negative zero           -       no
//   FLOAT8E8M0    8         8         0   127    2^127   all ones                -      there is neither zero nor sign
//   FLOAT6E2M3    6         2         3     1      7.5   -                       -      yes
//   FLOAT6E3M2    6         3         2     3       28   -                       -      yes
//   FLOAT4E2M1    4         2         1     1        6   -                       -      yes
//   INT4, UINT4   4;   INT2, UINT2   2: two's complement
//
// In memory a code is the low bits of a byte; the other bits are ignored. Sources: ONNX's pages "Float
// stored in 8 bits", "4 bit integer types" and Cast-25; FLOAT8_143 and FLOAT8_152 are PopART's names of E4M3FNUZ and
// E5M2FNUZ.
#pragma once
#include <cstdint>
#include <span>

#include <popart/datatype.hpp>

namespace popart {

enum class SmallSpecials : uint8_t {
  None,       // every code is a number
  LastIsNaN,  // NaN: all bits except the sign are 1
  NegativeZeroIsNaN,
  Ieee,  // exponents of ones: infinity for mantissa 0, else NaN
};

struct SmallFormat {
  DataType type;
  int bits;
  bool isFloat, isSigned;
  int mantissaBits, bias;  // of floats
  SmallSpecials specials;
  // FLOAT8E8M0: codes are only exponents.
  constexpr bool isExponent() const { return isFloat && !isSigned; }
};

// The format of the type; null for other types. Static storage.
const SmallFormat *smallFormat(DataType type);
inline bool isSmall(DataType type) { return smallFormat(type) != nullptr; }
// Bits of an element in a file, where elements of fewer than eight bits are packed; 0 for types without a size.
int bitsOf(DataType type);

// The value of every byte as a code of `type`, a small type. Static storage.
std::span<const float, 256> smallValues(DataType type);

// How to round values that the format does not have, by the attributes of ONNX's Cast.
struct SmallRounding {
  // Whether too large values become the largest number, else infinity or NaN. Formats without these always saturate.
  bool saturate = true;
  // Only FLOAT8E8M0: to the next larger power of two, the next smaller one, or the nearest (of two, the larger).
  enum class Exponent : uint8_t { Up, Down, Nearest } exponent = Exponent::Up;
};

// Code of the nearest value of a float format, ties to the even code. Integers truncate toward zero and keep their low
// bits. NaN becomes NaN; in formats without NaN, zero with the other sign, as in ml_dtypes; in integers 0. FLOAT8E8M0:
// numbers below zero become NaN; zero becomes 2^-127 or, without `saturate`, NaN.
uint8_t smallCode(const SmallFormat &format, double value, SmallRounding rounding = {});

}  // namespace popart
