// Activations against the C library in double, at ordinary, huge and non-finite arguments; updates against their
// formulas; packing.
#include "backends/cpu/kernels/epilogue.hpp"

#include <gtest/gtest.h>

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

TEST(Update, follows_the_documented_formulas) {
  Update u;
  u.rate = 0.5f, u.decay = 0.75f, u.momentum = 0.25f, u.gradScale = 2.0f;
  const float g = 1.0f;
  float w = 8.0f, velocity = 4.0f;
  u.first = &velocity;
  u.kind = UpdateKind::kSgd;
  applyUpdate(u, &g, 1, &w, 1, 1, 1);
  EXPECT_EQ(w, 5.0f);
  u.kind = UpdateKind::kSgdMomentum;
  applyUpdate(u, &g, 1, &w, 1, 1, 1);
  EXPECT_EQ(velocity, 3.0f);
  EXPECT_EQ(w, 2.25f);
  u.kind = UpdateKind::kAccumulate;
  applyUpdate(u, &g, 1, &w, 1, 1, 1);
  EXPECT_EQ(w, 4.25f);
  float first = 0.0f, second = 0.0f;
  u = Update{.kind = UpdateKind::kAdamW, .rate = 0.5f, .decay = 0.5f, .beta1 = 0.5f, .beta2 = 0.75f};
  u.firstCorrection = 2.0f, u.secondCorrection = 4.0f, u.first = &first, u.second = &second;
  w = 2.0f;
  applyUpdate(u, &g, 1, &w, 1, 1, 1);
  EXPECT_EQ(first, 0.5f);
  EXPECT_EQ(second, 0.25f);
  EXPECT_EQ(w, 0.5f);
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
