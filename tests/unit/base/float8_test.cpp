// FLOAT8 against the definition of its formats, code by code, and rounding against a search over all values.
#include "base/float8.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace popart {
namespace {

// (-1)^s 2^(e - bias) (1 + m / 2^bits), and 2^(1 - bias) m / 2^bits for e = 0.
double defined(int code, int bits, int bias) {
  const int e = (code & 0x7f) >> bits, m = code & ((1 << bits) - 1);
  const double fraction = m / std::pow(2.0, bits);
  const double magnitude = e == 0 ? std::pow(2.0, 1 - bias) * fraction : std::pow(2.0, e - bias) * (1 + fraction);
  return code < 0x80 ? magnitude : -magnitude;
}

// The code of the nearest value, ties to the even code, by looking at all of them. `step` is the spacing at the top.
int searched(DataType type, double value, double largest, double step) {
  if (!std::isfinite(value) || std::fabs(value) > largest + step / 2) return kFloat8NaN;
  if (std::fabs(value) == largest + step / 2) return kFloat8NaN;  // the tie would go to the even code above
  int best = 0;
  for (int code = 1; code < 0x80; ++code) {
    const double distance = std::fabs(float8Values(type)[code] - std::fabs(value));
    const double least = std::fabs(float8Values(type)[best] - std::fabs(value));
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return value < 0 && best != 0 ? best + 0x80 : best;
}

struct Case {
  DataType type;
  int bits, bias;
  double largest, smallest, step;
};
constexpr Case kCases[] = {{DataType::FLOAT8_143, 3, 8, 240, 0x1p-10, 16},
                           {DataType::FLOAT8_152, 2, 16, 57344, 0x1p-17, 8192}};

TEST(Float8, every_code_has_the_defined_value) {
  for (const Case &c : kCases) {
    const auto values = float8Values(c.type);
    for (int code = 0; code < 256; ++code) {
      if (code == kFloat8NaN) continue;
      EXPECT_EQ(values[code], defined(code, c.bits, c.bias)) << code;
    }
    EXPECT_TRUE(std::isnan(values[kFloat8NaN]));
    EXPECT_EQ(values[0x7f], c.largest);
    EXPECT_EQ(values[1], c.smallest);
  }
}

TEST(Float8, values_of_the_type_stay) {
  for (const Case &c : kCases)
    for (int code = 0; code < 256; ++code) EXPECT_EQ(floatToFloat8(c.type, float8Values(c.type)[code]), code);
}

TEST(Float8, rounds_to_the_nearest_even) {
  for (const Case &c : kCases)
    for (int code = 0; code < 0x80; ++code) {
      const double low = float8Values(c.type)[code];
      const double high = code == 0x7f ? c.largest + c.step : double{float8Values(c.type)[code + 1]};
      for (const double part : {0.1, 0.49, 0.5, 0.51, 0.9})
        for (const double sign : {1.0, -1.0}) {
          const double value = sign * (low + part * (high - low));
          EXPECT_EQ(floatToFloat8(c.type, value), searched(c.type, value, c.largest, c.step)) << value;
        }
    }
}

TEST(Float8, specials) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Case &c : kCases) {
    for (const double x : {kInfinity, -kInfinity, std::nan(""), 1e300, -1e300, c.largest + c.step})
      EXPECT_EQ(floatToFloat8(c.type, x), kFloat8NaN) << x;
    for (const double x : {0.0, -0.0, 1e-300, -1e-300, c.smallest / 2, -c.smallest / 2})
      EXPECT_EQ(floatToFloat8(c.type, x), 0) << x;
    EXPECT_EQ(floatToFloat8(c.type, c.smallest * 0.6), 1);
  }
}

TEST(Float8, onnx_has_both_types) {
  EXPECT_EQ(toOnnxDataType(DataType::FLOAT8_143), 18);
  EXPECT_EQ(fromOnnxDataType(20), DataType::FLOAT8_152);
}

}  // namespace
}  // namespace popart
