#include "base/float8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace popart {
namespace {

struct Format {
  int mantissaBits, bias;
};
Format formatOf(DataType type) { return type == DataType::FLOAT8_143 ? Format{3, 8} : Format{2, 16}; }

std::array<float, 256> valuesOf(DataType type) {
  const Format f = formatOf(type);
  std::array<float, 256> values;
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code & 0x7f) >> f.mantissaBits, mantissa = code & ((1 << f.mantissaBits) - 1);
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << f.mantissaBits);
    const float magnitude = std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - f.bias - f.mantissaBits);
    values[static_cast<size_t>(code)] = code < kFloat8NaN ? magnitude : -magnitude;
  }
  values[kFloat8NaN] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

}  // namespace

std::span<const float, 256> float8Values(DataType type) {
  static const std::array<float, 256> k143 = valuesOf(DataType::FLOAT8_143), k152 = valuesOf(DataType::FLOAT8_152);
  return type == DataType::FLOAT8_143 ? k143 : k152;
}

uint8_t floatToFloat8(DataType type, double value) {
  const Format f = formatOf(type);
  const double magnitude = std::fabs(value);
  if (!std::isfinite(value)) return kFloat8NaN;
  if (magnitude == 0) return 0;
  // below the smallest normal number the spacing stays
  const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias);
  if (exponent > 16) return kFloat8NaN;
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, f.mantissaBits - exponent)));
  // `steps` of 2^(mantissaBits + 1) carries into the exponent
  const int code = ((exponent + f.bias - 1) << f.mantissaBits) + steps;
  if (code > 0x7f) return kFloat8NaN;
  return static_cast<uint8_t>(value < 0 && code != 0 ? code | 0x80 : code);
}

}  // namespace popart
