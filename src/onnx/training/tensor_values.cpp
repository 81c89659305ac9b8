// Questions about values. A beginning of a large tensor answers for all of it.
#include "onnx/training/tensor_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace popart::onnx {
namespace {

constexpr double kFarAway = 1e4;
constexpr int64_t kFewestPositions = 4;
constexpr double kSineTolerance = 4e-3;
constexpr int64_t kExaminedElements = 1 << 16, kMostPositions = 64;

bool hasValues(const TensorData &values) { return !values.empty() && values.info().nelms() > 0; }

std::vector<double> firstOf(const TensorData &values, int64_t count) {
  const int64_t taken = std::min(count, values.info().nelms());
  return TensorData(TensorInfo(values.info().dataType(), {taken}), values.data()).asDoubles();
}

}  // namespace

bool isMask(const TensorData &values) {
  if (!hasValues(values)) return false;
  bool zeros = false, ones = false, others = false;
  for (double v : firstOf(values, kExaminedElements)) {
    if (!std::isfinite(v) || std::abs(v) >= kFarAway) return true;
    zeros |= v == 0;
    ones |= v == 1;
    others |= v != 0 && v != 1;
  }
  return zeros && ones && !others;
}

// sin(p a + b) and cos(p a + b) both follow x[p + 2] + x[p] = 2 cos(a) x[p + 1].
bool isTableOfSines(const TensorData &values) {
  if (!hasValues(values)) return false;
  std::vector<int64_t> dims;
  for (int64_t d : values.info().shape())
    if (d != 1) dims.push_back(d);
  if (dims.size() != 2 || dims[0] < kFewestPositions) return false;
  const int64_t rows = std::min(dims[0], kMostPositions), columns = dims[1];
  const std::vector<double> x = firstOf(values, rows * columns);
  double largest = 0;
  for (double v : x) largest = std::max(largest, std::abs(v));
  if (!(largest > 0.9 && largest < 1 + kSineTolerance)) return false;
  for (int64_t c = 0; c < columns; ++c) {
    const auto at = [&](int64_t row) { return x[static_cast<size_t>(row * columns + c)]; };
    double product = 0, square = 0;  // least squares for 2 cos(a)
    for (int64_t p = 0; p + 2 < rows; ++p) {
      product += (at(p + 2) + at(p)) * at(p + 1);
      square += at(p + 1) * at(p + 1);
    }
    const double factor = square > 0 ? product / square : 0;
    if (std::abs(factor) > 2 + kSineTolerance) return false;
    for (int64_t p = 0; p + 2 < rows; ++p)
      if (std::abs(at(p + 2) + at(p) - factor * at(p + 1)) > kSineTolerance) return false;
  }
  return true;
}

bool isUniform(const TensorData &values) {
  if (!hasValues(values)) return false;
  const auto *bytes = static_cast<const char *>(values.data());
  const auto all = static_cast<size_t>(values.nbytes()), one = all / static_cast<size_t>(values.info().nelms());
  return one > 0 && std::memcmp(bytes, bytes + one, all - one) == 0;
}

}  // namespace popart::onnx
