// Small types against the definition of their formats, code by code, and rounding against a search over all values.
#include "base/small_types.hpp"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <popart/error.hpp>

namespace popart {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// As the formats are defined: (-1)^s 2^(e - bias) (1 + m / 2^bits), and 2^(1 - bias) m / 2^bits for e = 0.
struct Case {
  DataType type;
  int width, bits, bias;
  double largest;
  std::set<int> nans, infinities;
};
const std::vector<Case> kFloats = {
    {DataType::FLOAT8_143, 8, 3, 8, 240, {0x80}, {}},
    {DataType::FLOAT8_152, 8, 2, 16, 57344, {0x80}, {}},
    {DataType::FLOAT8E4M3FN, 8, 3, 7, 448, {0x7f, 0xff}, {}},
    {DataType::FLOAT8E5M2, 8, 2, 15, 57344, {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}, {0x7c, 0xfc}},
    {DataType::FLOAT6E2M3, 6, 3, 1, 7.5, {}, {}},
    {DataType::FLOAT6E3M2, 6, 2, 3, 28, {}, {}},
    {DataType::FLOAT4E2M1, 4, 1, 1, 6, {}, {}},
};

double defined(const Case &c, int code) {
  const int sign = 1 << (c.width - 1), magnitude = code & (sign - 1);
  const int e = magnitude >> c.bits, m = magnitude & ((1 << c.bits) - 1);
  const double fraction = m / std::pow(2.0, c.bits);
  const double value = e == 0 ? std::pow(2.0, 1 - c.bias) * fraction : std::pow(2.0, e - c.bias) * (1 + fraction);
  return code & sign ? -value : value;
}

// Finite values of codes without a sign, ascending.
std::vector<double> magnitudes(const Case &c) {
  std::vector<double> values;
  for (int code = 0; code < 1 << (c.width - 1); ++code)
    if (!c.nans.contains(code) && !c.infinities.contains(code)) values.push_back(defined(c, code));
  return values;
}

TEST(SmallTypes, every_code_has_the_defined_value) {
  for (const Case &c : kFloats) {
    const auto values = smallValues(c.type);
    for (int byte = 0; byte < 256; ++byte) {
      const int code = byte & ((1 << c.width) - 1);
      if (c.nans.contains(code)) {
        EXPECT_TRUE(std::isnan(values[byte])) << toText(c.type) << " " << byte;
      } else if (c.infinities.contains(code)) {
        EXPECT_EQ(values[byte], code == *c.infinities.begin() ? kInfinity : -kInfinity);
      } else {
        EXPECT_EQ(values[byte], defined(c, code)) << toText(c.type) << " " << byte;
        EXPECT_EQ(std::signbit(values[byte]), std::signbit(defined(c, code))) << toText(c.type) << " " << byte;
      }
    }
    EXPECT_EQ(magnitudes(c).back(), c.largest) << toText(c.type);
  }
}

TEST(SmallTypes, values_of_the_type_stay) {
  for (const Case &c : kFloats)
    for (int code = 0; code < 1 << c.width; ++code) {
      if (c.nans.contains(code)) continue;
      const double value = static_cast<double>(smallValues(c.type)[code]);
      EXPECT_EQ(smallCode(*smallFormat(c.type), value, {.saturate = false}), code) << toText(c.type);
    }
}

TEST(SmallTypes, rounds_to_the_nearest_even) {
  for (const Case &c : kFloats) {
    const std::vector<double> values = magnitudes(c);
    for (size_t i = 0; i + 1 < values.size(); ++i)
      for (const double part : {0.0, 0.1, 0.49999, 0.5, 0.50001, 0.9}) {
        const double value = values[i] + part * (values[i + 1] - values[i]);
        const size_t nearest = part < 0.5 || (part == 0.5 && i % 2 == 0) ? i : i + 1;
        EXPECT_EQ(smallCode(*smallFormat(c.type), value), nearest) << toText(c.type) << " " << value;
        const bool signedZero = !c.nans.contains(1 << (c.width - 1));
        if (nearest != 0 || signedZero) {
          EXPECT_EQ(smallCode(*smallFormat(c.type), -value), nearest | size_t{1} << (c.width - 1));
        } else {
          EXPECT_EQ(smallCode(*smallFormat(c.type), -value), 0) << value;
        }
      }
  }
}

TEST(SmallTypes, values_beyond_the_largest) {
  for (const Case &c : kFloats) {
    const SmallFormat &format = *smallFormat(c.type);
    const std::vector<double> values = magnitudes(c);
    const double step = values[values.size() - 1] - values[values.size() - 2];
    const auto valueOf = [&](double x, bool saturate) {
      return static_cast<double>(smallValues(c.type)[smallCode(format, x, {.saturate = saturate})]);
    };
    EXPECT_EQ(valueOf(c.largest + step / 2.001, false), c.largest) << toText(c.type);
    for (const double x : {c.largest + step, 1e30, 1e300, kInfinity})
      for (const double sign : {1.0, -1.0}) {
        EXPECT_EQ(valueOf(sign * x, true), sign * c.largest) << toText(c.type);
        const double loose = valueOf(sign * x, false);
        if (!c.infinities.empty()) {
          EXPECT_EQ(loose, sign * kInfinity);
        } else if (!c.nans.empty()) {
          EXPECT_TRUE(std::isnan(loose)) << toText(c.type) << " " << x;
        } else {
          EXPECT_EQ(loose, sign * c.largest);
        }
      }
    for (const double x : {1e-300, 5e-324, values[1] / 2}) EXPECT_EQ(valueOf(x, true), 0) << toText(c.type);
    if (c.nans.empty()) {
      EXPECT_EQ(smallCode(format, std::nan("")), 1 << (c.width - 1));
    } else {
      EXPECT_TRUE(std::isnan(valueOf(std::nan(""), true)));
    }
  }
}

TEST(SmallTypes, exponents_alone) {
  using enum SmallRounding::Exponent;
  const SmallFormat &format = *smallFormat(DataType::FLOAT8E8M0);
  const auto values = smallValues(DataType::FLOAT8E8M0);
  for (int code = 0; code < 255; ++code) EXPECT_EQ(values[code], std::ldexp(1.0, code - 127));
  EXPECT_TRUE(std::isnan(values[255]));
  const auto code = [&](double x, SmallRounding::Exponent mode, bool saturate = true) {
    return static_cast<int>(smallCode(format, x, {saturate, mode}));
  };
  for (int e : {-127, -3, 0, 50, 127})
    for (auto mode : {Up, Down, Nearest}) EXPECT_EQ(code(std::ldexp(1.0, e), mode), e + 127);
  EXPECT_EQ(code(1.0001, Up), 128);
  EXPECT_EQ(code(1.9, Down), 127);
  EXPECT_EQ(code(1.49, Nearest), 127);
  EXPECT_EQ(code(1.5, Nearest), 128);
  EXPECT_EQ(code(0, Up), 0);
  EXPECT_EQ(code(-0.0, Up), 0);
  EXPECT_EQ(code(1e-60, Up), 0);
  EXPECT_EQ(code(kInfinity, Up), 254);
  EXPECT_EQ(code(1e60, Up), 254);
  for (const double x : {0.0, 1e-60, kInfinity, 1e60}) EXPECT_EQ(code(x, Nearest, false), 255) << x;
  for (const double x : {-1.0, std::nan("")}) EXPECT_EQ(code(x, Up), 255) << x;
}

TEST(SmallTypes, integers_keep_their_low_bits) {
  for (const auto &[type, low, high] : {std::tuple{DataType::INT4, -8, 7},
                                        {DataType::UINT4, 0, 15},
                                        {DataType::INT2, -2, 1},
                                        {DataType::UINT2, 0, 3}}) {
    const SmallFormat &format = *smallFormat(type);
    const auto values = smallValues(type);
    for (int v = low; v <= high; ++v) EXPECT_EQ(values[smallCode(format, v)], v) << toText(type);
    EXPECT_EQ(values[smallCode(format, high + 1)], low);
    EXPECT_EQ(values[smallCode(format, low - 1)], high);
    EXPECT_EQ(values[smallCode(format, 1.9)], 1 > high ? low : 1);
    EXPECT_EQ(smallCode(format, std::nan("")), 0);
    EXPECT_EQ(smallCode(format, kInfinity), 0);
    for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(values[byte], values[byte & ((1 << format.bits) - 1)]);
  }
}

TEST(SmallTypes, sizes_and_names) {
  EXPECT_EQ(bitsOf(DataType::INT2), 2);
  EXPECT_EQ(bitsOf(DataType::FLOAT6E3M2), 6);
  EXPECT_EQ(bitsOf(DataType::BOOL), 8);
  EXPECT_EQ(bitsOf(DataType::COMPLEX128), 128);
  EXPECT_EQ(bitsOf(DataType::STRING), 0);
  EXPECT_EQ(smallFormat(DataType::INT8), nullptr);
  EXPECT_EQ(toOnnxDataType(DataType::FLOAT8_143), 18);
  for (int number = 1; number <= 28; ++number) EXPECT_EQ(toOnnxDataType(fromOnnxDataType(number)), number);
  EXPECT_EQ(dataTypeFromString("FLOAT8E4M3FNUZ"), DataType::FLOAT8_143);
  EXPECT_EQ(dataTypeFromString("float8_e8m0fnu"), DataType::FLOAT8E8M0);
  for (int i = 0; i < kDataTypeCount; ++i) {
    const DataTypeInfo &info = getDataTypeInfo(static_cast<DataType>(i));
    EXPECT_EQ(static_cast<int>(info.type), i);
    EXPECT_EQ(dataTypeFromString(info.name), info.type);
  }
}

}  // namespace
}  // namespace popart
