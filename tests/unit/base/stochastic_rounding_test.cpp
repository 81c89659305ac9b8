// Rounding at random against an oracle in double: the two neighbours of a value are found by search over all codes, and
// the share of draws that give the farther one is counted over every draw that can matter.
#include "base/stochastic_rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace popart {
namespace {

// Finite magnitudes of the type, ascending; code i is magnitude i.
std::vector<double> magnitudes(float (*toFloat)(uint16_t), uint16_t end) {
  std::vector<double> values;
  for (uint32_t code = 0; code < end; ++code) values.push_back(toFloat(static_cast<uint16_t>(code)));
  return values;
}

struct Type {
  uint16_t (*round)(float, float);
  float (*toFloat)(uint16_t);
  uint16_t (*nearest)(float);
  std::vector<double> values;
  int bits;  // of the fraction of normal numbers
};

const Type &half() {
  static const Type type{roundToHalfBits, halfBitsToFloat, floatToHalfBits, magnitudes(halfBitsToFloat, 0x7c00), 13};
  return type;
}
const Type &bfloat16() {
  static const Type type{roundToBFloat16Bits, bfloat16BitsToFloat, floatToBFloat16Bits,
                         magnitudes(bfloat16BitsToFloat, 0x7f80), 16};
  return type;
}

// Every draw of `bits` bits: the results are the two neighbours of |x|, the farther one as often as it must be.
void expectUnbiased(const Type &type, float x, int bits) {
  const double magnitude = std::fabs(double{x});
  const auto above = std::lower_bound(type.values.begin(), type.values.end(), magnitude);
  ASSERT_NE(above, type.values.end()) << x;
  const double high = *above, low = high == magnitude ? high : *(above - 1);
  const int64_t draws = int64_t{1} << bits;
  int64_t far = 0;
  for (int64_t k = 0; k < draws; ++k) {
    const double got = type.toFloat(type.round(x, std::ldexp(static_cast<float>(k), -bits)));
    ASSERT_EQ(std::signbit(got), std::signbit(x)) << x;
    ASSERT_TRUE(std::fabs(got) == low || std::fabs(got) == high) << x << " gave " << got;
    far += high != low && std::fabs(got) == high ? 1 : 0;
  }
  const double share = high == low ? 0 : (magnitude - low) / (high - low);
  EXPECT_LE(std::fabs(static_cast<double>(far) - share * static_cast<double>(draws)), 1.0) << x;
}

TEST(StochasticRounding, goes_to_the_farther_neighbour_in_proportion) {
  for (const Type *type : {&half(), &bfloat16()})
    for (const float x : {1.0003f, 0.1f, 3.14159f, 1000.7f, 65503.9f, 6.1e-5f, 6.09e-5f, 1e-6f, 3e-8f, 1e-39f})
      for (const float sign : {1.0f, -1.0f}) expectUnbiased(*type, sign * x, type->bits);
  expectUnbiased(bfloat16(), 3.38e38f, 16);
}

TEST(StochasticRounding, fractions_of_normal_numbers_are_exact) {
  const float x = 1.0f + 0x1p-13f * 0.375f;  // FLOAT16 has 2^-10 between neighbours: 0.375 / 8 of the way
  int64_t far = 0;
  for (int64_t k = 0; k < int64_t{1} << 24; k += 1 << 8)
    far += roundToHalfBits(x, std::ldexp(static_cast<float>(k), -24)) == floatToHalfBits(1.0f + 0x1p-10f) ? 1 : 0;
  EXPECT_EQ(far, (int64_t{1} << 16) * 3 / 64);
}

TEST(StochasticRounding, values_of_the_type_stay) {
  for (const Type *type : {&half(), &bfloat16()})
    for (uint32_t code = 0; code < 0x10000u; ++code) {
      const float x = type->toFloat(static_cast<uint16_t>(code));
      for (const float uniform : {0.0f, 0.5f, 1.0f - 0x1p-24f})
        ASSERT_EQ(type->round(x, uniform), type->nearest(x)) << code;  // NaN becomes quiet
    }
}

TEST(StochasticRounding, no_draw_makes_an_overflow_that_nearest_does_not) {
  constexpr float kLast = 1.0f - 0x1p-24f;
  for (const float x : {65504.1f, 65519.9f, 65520.0f, 70000.0f, 1e30f, std::numeric_limits<float>::infinity()})
    for (const float sign : {1.0f, -1.0f})
      for (const float uniform : {0.0f, kLast})
        EXPECT_EQ(roundToHalfBits(sign * x, uniform), floatToHalfBits(sign * x));
  const float most = bfloat16BitsToFloat(0x7f7f);
  for (const float x : {std::nextafter(most, INFINITY), std::numeric_limits<float>::max(), INFINITY})
    for (const float uniform : {0.0f, kLast}) EXPECT_EQ(roundToBFloat16Bits(x, uniform), floatToBFloat16Bits(x));
}

TEST(StochasticRounding, tiny_values_keep_their_sign) {
  EXPECT_EQ(roundToHalfBits(-1e-20f, 0.5f), 0x8000);
  EXPECT_EQ(roundToHalfBits(-1e-20f, 0.0f), 0x8001);  // a draw of 0 is below every fraction
  EXPECT_EQ(roundToHalfBits(-0.0f, 0.0f), 0x8000);
  EXPECT_EQ(roundToBFloat16Bits(-0.0f, 0.0f), 0x8000);
}

}  // namespace
}  // namespace popart
