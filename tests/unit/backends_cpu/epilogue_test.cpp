// Activations against the C library in double, at ordinary, huge and non-finite arguments; updates against their
// formulas; packing.
#include "backends/cpu/kernels/epilogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

double exactActivation(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

constexpr Activation kAll[] = {Activation::kNone,    Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                               Activation::kSigmoid, Activation::kTanh, Activation::kSilu};

TEST(Activation, matches_the_exact_function) {
  std::vector<float> x, y;
  for (double v = -12; v <= 12; v += 0.00371) x.push_back(static_cast<float>(v));
  for (float v : {0.0f, -0.0f, 1e-20f, -1e-20f, 90.0f, -90.0f, 1e4f, -1e4f, 3e12f, -3e12f}) x.push_back(v);
  y.resize(x.size());
  for (Activation activation : kAll) {
    applyActivation(activation, x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = exactActivation(activation, x[i]);
      ASSERT_NEAR(y[i], exact, 4e-7 * std::max(1.0, std::abs(exact)))
          << "activation " << static_cast<int>(activation) << " at " << x[i];
    }
  }
}

TEST(Activation, keeps_nan_and_the_limits_at_infinity) {
  const float inf = std::numeric_limits<float>::infinity();
  for (Activation activation : kAll) {
    const float x[2] = {NAN, inf};
    float y[2];
    applyActivation(activation, x, y, 2);
    EXPECT_TRUE(std::isnan(y[0])) << static_cast<int>(activation);
    const bool bounded = activation == Activation::kSigmoid || activation == Activation::kTanh;
    EXPECT_EQ(y[1], bounded ? 1.0f : inf) << static_cast<int>(activation);
  }
}

TEST(Activation, does_not_depend_on_the_position_in_the_array) {
  std::vector<float> x(67, 0.731f), y(67);
  for (Activation activation : kAll) {
    applyActivation(activation, x.data(), y.data(), 67);
    for (float v : y) ASSERT_EQ(v, y[0]);
  }
}

TEST(Activation, gradient_matches_the_central_difference) {
  std::vector<float> x;
  for (double v = -8; v <= 8; v += 0.0173) x.push_back(static_cast<float>(v));
  for (float v : {60.0f, -60.0f, 1e15f, -1e15f}) x.push_back(v);
  const auto count = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size()), dy(x.size(), -1.5f), dx(x.size());
  for (Activation activation : kAll) {
    applyActivation(activation, x.data(), y.data(), count);
    const bool fromOutput =
        activation == Activation::kRelu || activation == Activation::kSigmoid || activation == Activation::kTanh;
    applyActivationGradient(activation, fromOutput ? y.data() : x.data(), dy.data(), dx.data(), count);
    for (size_t i = 0; i < x.size(); ++i) {
      const double at = x[i], step = 1e-5;
      if (activation == Activation::kRelu && std::abs(at) < 2 * step) continue;
      const bool huge = std::abs(at) > 50;
      const double limit =
          activation == Activation::kNone || (at > 0 && !(fromOutput && activation != Activation::kRelu));
      const double slope =
          huge ? limit : (exactActivation(activation, at + step) - exactActivation(activation, at - step)) / (2 * step);
      ASSERT_NEAR(dx[i], -1.5 * slope, 3e-6) << "activation " << static_cast<int>(activation) << " at " << at;
    }
  }
}

// first = first / 2 + gradient; w = w - first. Counts positions from the start of both arrays.
class Momentum final : public ElementUpdate {
 public:
  Momentum(float *w, float *first) : w_(w), first_(first) {}
  void apply(const float *gradient, int64_t position, int64_t count) const noexcept override {
    for (int64_t i = 0; i < count; ++i) {
      first_[position + i] = 0.5f * first_[position + i] + gradient[i];
      w_[position + i] -= first_[position + i];
    }
  }
  void prefetch(int64_t, int64_t) const noexcept override {}
  void clear(int64_t position, int64_t count) const noexcept override {
    std::fill_n(w_ + position, count, 0.0f);
    std::fill_n(first_ + position, count, 0.0f);
  }

 private:
  float *w_, *first_;
};

TEST(Update, follows_the_documented_formulas) {
  const Update u{.kind = UpdateKind::kSgd, .rate = 0.5f, .decay = 0.75f};
  const float g = 2.0f;
  float w = 8.0f;
  applyUpdate(u, &g, 1, &w, 1, 1, 1);
  EXPECT_EQ(w, 5.0f);
  applyUpdate({}, &g, 1, &w, 1, 1, 1);
  EXPECT_EQ(w, 2.0f);
}

// A block of a plain matrix, and rows of a panel whose last lanes hold no element.
TEST(Update, hands_places_to_compiled_steps_and_clears_padding) {
  constexpr int64_t kRows = 3, kWidth = 5, kCols = 2;
  const float gradient[kRows * kCols] = {1, 2, 3, 4, 5, 6};
  for (const bool isPanel : {false, true}) {
    std::vector<float> w(20, 10.0f), first(20, 2.0f);
    const Momentum momentum(w.data(), first.data());
    const Update u{.kind = UpdateKind::kElements, .elements = &momentum, .base = w.data()};
    (isPanel ? applyPanelUpdate : applyUpdate)(u, gradient, kCols, w.data() + kWidth, kWidth, kRows, kCols);
    for (int64_t i = 0; i < 20; ++i) {
      const int64_t row = i / kWidth - 1, col = i % kWidth;
      const bool isElement = row >= 0 && col < kCols, isPadding = row >= 0 && col >= kCols && isPanel;
      const float g = isElement ? gradient[row * kCols + col] : 0.0f;
      ASSERT_EQ(first[i], isElement ? 1 + g : isPadding ? 0 : 2) << i;
      ASSERT_EQ(w[i], isElement ? 9 - g : isPadding ? 0 : 10) << i;
    }
  }
}

TEST(Pack, round_trips_rows_and_columns_and_pads_with_zeros) {
  for (int64_t n : {1, 7, 32, 45, 96}) {
    const int64_t k = 19;
    std::vector<float> b(static_cast<size_t>(k * n)), packed(static_cast<size_t>(packedSize(k, n)), NAN),
        back(b.size()), transposed(b.size());
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i + 1);
    packPanels(b.data(), n, 1, k, n, packed.data());
    double sum = 0, packedSum = 0;
    for (float v : b) sum += v;
    for (float v : packed) packedSum += v;
    EXPECT_EQ(sum, packedSum);
    unpackPanels(packed.data(), k, n, back.data(), n, 1);
    EXPECT_EQ(back, b);
    unpackPanels(packed.data(), k, n, transposed.data(), 1, k);
    std::vector<float> packedAgain(packed.size(), NAN);
    packPanels(transposed.data(), 1, k, k, n, packedAgain.data());
    EXPECT_EQ(packedAgain, packed);
  }
}

}  // namespace
}  // namespace popart::cpu
