#include "base/small_types.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace popart {
namespace {

using enum SmallSpecials;

constexpr std::array<SmallFormat, 12> kFormats = {{
    {DataType::FLOAT8_143, 8, true, true, 3, 8, NegativeZeroIsNaN},
    {DataType::FLOAT8_152, 8, true, true, 2, 16, NegativeZeroIsNaN},
    {DataType::FLOAT8E4M3FN, 8, true, true, 3, 7, LastIsNaN},
    {DataType::FLOAT8E5M2, 8, true, true, 2, 15, Ieee},
    {DataType::FLOAT8E8M0, 8, true, false, 0, 127, LastIsNaN},
    {DataType::FLOAT6E2M3, 6, true, true, 3, 1, None},
    {DataType::FLOAT6E3M2, 6, true, true, 2, 3, None},
    {DataType::FLOAT4E2M1, 4, true, true, 1, 1, None},
    {DataType::INT4, 4, false, true, 0, 0, None},
    {DataType::UINT4, 4, false, false, 0, 0, None},
    {DataType::INT2, 2, false, true, 0, 0, None},
    {DataType::UINT2, 2, false, false, 0, 0, None},
}};

constexpr int signBit(const SmallFormat &f) { return f.isSigned ? 1 << (f.bits - 1) : 0; }
// The code in which all bits except the sign are 1.
constexpr int lastMagnitude(const SmallFormat &f) { return (1 << (f.bits - (f.isSigned ? 1 : 0))) - 1; }
constexpr int largestMagnitude(const SmallFormat &f) {
  const int last = lastMagnitude(f);
  if (f.specials == Ieee) return (last >> f.mantissaBits << f.mantissaBits) - 1;
  return f.specials == LastIsNaN ? last - 1 : last;
}

constexpr double timesPowerOfTwo(double value, int exponent) {
  for (; exponent > 0; --exponent) value *= 2;
  for (; exponent < 0; ++exponent) value /= 2;
  return value;
}

constexpr float valueOf(const SmallFormat &f, int byte) {
  const int code = byte & ((1 << f.bits) - 1);
  const bool negative = (code & signBit(f)) != 0;
  if (!f.isFloat) return static_cast<float>(negative ? code - (1 << f.bits) : code);
  const int magnitude = code & lastMagnitude(f);
  const float nan = std::bit_cast<float>(negative ? 0xffc00000u : 0x7fc00000u);
  if (f.specials == NegativeZeroIsNaN && negative && magnitude == 0) return nan;
  if (f.specials == LastIsNaN && magnitude == lastMagnitude(f)) return nan;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (f.specials == Ieee && magnitude > largestMagnitude(f))
    return magnitude > largestMagnitude(f) + 1 ? nan : negative ? -kInfinity : kInfinity;
  const int exponent = magnitude >> f.mantissaBits, mantissa = magnitude & ((1 << f.mantissaBits) - 1);
  const bool isNormal = exponent > 0 || f.isExponent();
  const double whole = isNormal ? mantissa + (1 << f.mantissaBits) : mantissa;
  const int power = (isNormal ? exponent : 1) - f.bias - f.mantissaBits;
  const auto value = static_cast<float>(timesPowerOfTwo(whole, power));
  return negative ? -value : value;
}

using Values = std::array<float, 256>;
constexpr std::array<Values, kFormats.size()> allValues() {
  std::array<Values, kFormats.size()> all{};
  for (size_t i = 0; i < all.size(); ++i)
    for (int byte = 0; byte < 256; ++byte) all[i][static_cast<size_t>(byte)] = valueOf(kFormats[i], byte);
  return all;
}
constexpr std::array<Values, kFormats.size()> kValues = allValues();

// ---- codes of values. A double is 1.f 2^e with 52 bits of fraction; its subnormal numbers are smaller than half of
// any format's smallest one.

constexpr int kFractionBits = 52;

int exponentOf(uint64_t bits) { return static_cast<int>(bits >> kFractionBits) - 1023; }
uint64_t fractionOf(uint64_t bits) { return bits & ((uint64_t{1} << kFractionBits) - 1); }

// `whole` / 2^shift, rounded to the nearest integer, ties to even.
int shiftedToNearest(uint64_t whole, int shift) {
  if (shift > kFractionBits + 1) return 0;
  const uint64_t half = uint64_t{1} << (shift - 1), odd = whole >> shift & 1;
  return static_cast<int>((whole + half - 1 + odd) >> shift);
}

int nanCode(const SmallFormat &f, bool negative) {
  const int sign = negative ? signBit(f) : 0;
  switch (f.specials) {
    case NegativeZeroIsNaN:
      return signBit(f);
    case None:
      return negative ? 0 : signBit(f);
    case LastIsNaN:
      return lastMagnitude(f) | sign;
    default:
      return (lastMagnitude(f) - 1) | sign;  // a quiet NaN
  }
}

int overflowCode(const SmallFormat &f, bool negative, bool saturate) {
  const int sign = negative ? signBit(f) : 0;
  if (saturate || f.specials == None) return largestMagnitude(f) | sign;
  return f.specials == Ieee ? (largestMagnitude(f) + 1) | sign : nanCode(f, negative);
}

int exponentCode(const SmallFormat &f, uint64_t bits, bool negative, SmallRounding rounding) {
  using enum SmallRounding::Exponent;
  if (negative && bits != 0) return nanCode(f, false);
  const uint64_t fraction = fractionOf(bits), half = uint64_t{1} << (kFractionBits - 1);
  const bool next = (rounding.exponent == Up && fraction != 0) || (rounding.exponent == Nearest && fraction >= half);
  const int code = exponentOf(bits) + (next ? 1 : 0) + f.bias;
  if (code < 0) return rounding.saturate ? 0 : nanCode(f, false);
  return code > largestMagnitude(f) ? overflowCode(f, false, rounding.saturate) : code;
}

int integerCode(const SmallFormat &f, double value) {
  constexpr double kWhole = 9007199254740992;  // 2^53: larger doubles are multiples of 2
  if (!std::isfinite(value)) return 0;
  if (std::fabs(value) > kWhole) value = std::fmod(value, kWhole);
  return static_cast<int>(static_cast<int64_t>(value) & ((1 << f.bits) - 1));
}

}  // namespace

const SmallFormat *smallFormat(DataType type) {
  for (const SmallFormat &f : kFormats)
    if (f.type == type) return &f;
  return nullptr;
}

int bitsOf(DataType type) {
  const SmallFormat *format = smallFormat(type);
  return format ? format->bits : std::max(0, 8 * getDataTypeInfo(type).nbytes);
}

std::span<const float, 256> smallValues(DataType type) {
  return kValues[static_cast<size_t>(smallFormat(type) - kFormats.data())];
}

uint8_t smallCode(const SmallFormat &f, double value, SmallRounding rounding) {
  if (!f.isFloat) return static_cast<uint8_t>(integerCode(f, value));
  const bool negative = std::signbit(value);
  if (std::isnan(value)) return static_cast<uint8_t>(nanCode(f, negative));
  const auto bits = std::bit_cast<uint64_t>(std::fabs(value));
  if (f.isExponent()) return static_cast<uint8_t>(exponentCode(f, bits, negative, rounding));
  if (std::isinf(value)) return static_cast<uint8_t>(overflowCode(f, negative, rounding.saturate));
  // below the smallest normal number the spacing is constant
  const int lowest = 1 - f.bias, exponent = std::max(exponentOf(bits), lowest);
  const int shift = kFractionBits - f.mantissaBits + exponent - exponentOf(bits);
  const int steps = shiftedToNearest(fractionOf(bits) | uint64_t{1} << kFractionBits, shift);
  // `steps` of 2^(mantissaBits + 1) carries into the exponent
  const int magnitude = ((exponent - lowest) << f.mantissaBits) + steps;
  if (magnitude > largestMagnitude(f)) return static_cast<uint8_t>(overflowCode(f, negative, rounding.saturate));
  const bool keepsSign = negative && (magnitude != 0 || f.specials != NegativeZeroIsNaN);
  return static_cast<uint8_t>(keepsSign ? magnitude | signBit(f) : magnitude);
}

}  // namespace popart
