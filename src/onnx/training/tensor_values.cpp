// Queries about values. For a large tensor only its beginning is read.
#include "onnx/training/tensor_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include <popart/half.hpp>

namespace popart::onnx {
namespace {

constexpr double kFarAway = 1e4;
constexpr int64_t kFewestPositions = 4;
constexpr double kSineTolerance = 4e-3;
constexpr int64_t kExaminedElements = 1 << 16, kMostPositions = 64;
constexpr double kProgressionTolerance = 1e-4;  // of a difference or quotient
constexpr int64_t kFewestRepeating = 16, kTimes = 4, kFewRounded = 64;

bool hasValues(const TensorData &values) { return !values.empty() && values.info().nelms() > 0; }

std::vector<double> firstOf(const TensorData &values, int64_t count) {
  const int64_t taken = std::min(count, values.info().nelms());
  return TensorData(TensorInfo(values.info().dataType(), {taken}), values.data()).asDoubles();
}

// Dimensions that are not 1.
std::vector<int64_t> wideDimensionsOf(const TensorData &values) {
  std::vector<int64_t> dims;
  for (int64_t d : values.info().shape())
    if (d != 1) dims.push_back(d);
  return dims;
}

bool areEqual(const std::vector<double> &steps) {
  const double first = steps.front();
  if (!std::isfinite(first)) return false;
  return std::ranges::all_of(steps,
                             [&](double s) { return std::abs(s - first) <= kProgressionTolerance * std::abs(first); });
}

bool isVectorWithSteps(const TensorData &values, double (*step)(double, double), double none) {
  if (!hasValues(values)) return false;
  const std::vector<int64_t> dims = wideDimensionsOf(values);
  if (dims.size() != 1 || dims[0] < kFewestPositions) return false;
  const std::vector<double> x = firstOf(values, kExaminedElements);
  std::vector<double> steps;
  for (size_t i = 0; i + 1 < x.size(); ++i) steps.push_back(step(x[i], x[i + 1]));
  return areEqual(steps) && std::abs(steps.front() - none) > kProgressionTolerance;
}

// The elements other than 0 and 1, sorted.
std::vector<double> ownElements(const TensorData &values) {
  if (!hasValues(values)) return {};
  std::vector<double> own = firstOf(values, kExaminedElements);
  std::erase_if(own, [](double v) { return v == 0 || v == 1 || std::isnan(v); });
  std::ranges::sort(own);
  return own;
}

// Whether all of them can be represented in BFLOAT16, or all of them in FLOAT16.
bool areOf16Bits(const std::vector<double> &elements) {
  bool brain = true, half = true;
  for (double v : elements) {
    const auto f = static_cast<float>(v);
    if (static_cast<double>(f) != v) return false;
    brain = brain && (std::bit_cast<uint32_t>(f) & 0xffffu) == 0;
    half = half && halfBitsToFloat(floatToHalfBits(f)) == f;
  }
  return brain || half;
}

int64_t distinct(std::vector<double> sorted) { return std::ranges::unique(sorted).begin() - sorted.begin(); }

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
  const std::vector<int64_t> dims = wideDimensionsOf(values);
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

bool isWholeNumbers(const TensorData &values, int64_t fewest) {
  if (!hasValues(values) || values.info().nelms() < fewest || isUniform(values)) return false;
  return std::ranges::all_of(firstOf(values, kExaminedElements), [](double v) { return v == std::floor(v); });
}

bool isProgression(const TensorData &values) {
  return isGeometricProgression(values) || isVectorWithSteps(
                                               values, [](double a, double b) { return b - a; }, 0.0);
}

bool isGeometricProgression(const TensorData &values) {
  return isVectorWithSteps(
      values, [](double a, double b) { return b / a; }, 1.0);
}

bool isFewNumbers(const TensorData &values) {
  const std::vector<double> own = ownElements(values);
  const auto count = static_cast<int64_t>(own.size());
  const int64_t different = distinct(own);
  if (count < kFewestRepeating || kTimes * different > count || isUniform(values)) return false;
  return (wideDimensionsOf(values).size() > 1 && different <= kFewRounded) || !areOf16Bits(own);
}

bool holdsCopies(const TensorData &values) {
  const std::vector<double> own = ownElements(values);
  return own.size() > 1 && 2 * distinct(own) <= static_cast<int64_t>(own.size()) && !isUniform(values) &&
         !areOf16Bits(own);
}

bool sharesElements(const TensorData &a, const TensorData &b) {
  const std::vector<double> first = ownElements(a), second = ownElements(b);
  std::vector<double> shared;
  std::ranges::set_intersection(first, second, std::back_inserter(shared));
  return 2 * shared.size() > std::min(first.size(), second.size());
}

bool isUniform(const TensorData &values) {
  if (!hasValues(values)) return false;
  const auto *bytes = static_cast<const char *>(values.data());
  const auto all = static_cast<size_t>(values.nbytes()), one = all / static_cast<size_t>(values.info().nelms());
  return one > 0 && std::memcmp(bytes, bytes + one, all - one) == 0;
}

}  // namespace popart::onnx
