// Gradients of products: g times the product of the other elements, with zeros, infinities, NaN, and products that
// leave the range of their type on the way; the same bits for any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../support/random_floats.hpp"
#include "support/run_op.hpp"

namespace popart {
namespace {

using Floats = std::vector<float>;
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// x as [outer][reduced][inner], of which `axes` name the middle.
struct Product {
  Shape shape;
  std::vector<int64_t> axes;
  int64_t outer, reduced, inner;
};

TensorData gradientOf(const Product &p, const Floats &g, const Floats &x, int threads) {
  Shape kept = p.shape;
  for (const int64_t axis : p.axes) kept[static_cast<size_t>(axis)] = 1;
  const SingleOp op{"ReduceProdGrad",
                    {{"axes", p.axes}, {"fwd_shape", p.shape}},
                    {TensorData::of<float>(kept, g), TensorData::of<float>(p.shape, x)},
                    1};
  return runOp(op, {OpBackend::Best, OpOperands::Plain, threads, 2})[0];
}

// By the definition: products of the elements before and behind each one, in a type that holds them all.
std::vector<long double> expectedOf(const Product &p, const Floats &g, const Floats &x) {
  std::vector<long double> expected(x.size());
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t i = 0; i < p.inner; ++i) {
      const auto at = [&](int64_t r) { return static_cast<size_t>((o * p.reduced + r) * p.inner + i); };
      long double before = 1, behind = g[static_cast<size_t>(o * p.inner + i)];
      for (int64_t r = 0; r < p.reduced; before *= x[at(r++)]) expected[at(r)] = before;
      for (int64_t r = p.reduced; r-- > 0; behind *= x[at(r)]) expected[at(r)] *= behind;
    }
  return expected;
}

void expectGradient(const Product &p, const Floats &g, const Floats &x, const std::string &what) {
  const TensorData one = gradientOf(p, g, x, 1);
  for (const int threads : {2, 3, 8}) EXPECT_TRUE(gradientOf(p, g, x, threads) == one) << what << ": " << threads;
  const std::vector<double> got = one.asDoubles();
  const std::vector<long double> expected = expectedOf(p, g, x);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const auto rounded = static_cast<float>(expected[i]);
    if (std::isnan(rounded)) {
      ASSERT_TRUE(std::isnan(got[i])) << what << ", element " << i << ": " << got[i];
      continue;
    }
    const double ulp = std::isinf(rounded) ? 0 : std::nextafter(std::abs(rounded), kInfinity) - std::abs(rounded);
    ASSERT_TRUE(got[i] == double{rounded} || std::abs(got[i] - double{rounded}) <= ulp)
        << what << ", element " << i << ": got " << got[i] << ", expected " << rounded;
  }
}

const std::vector<Product> kProducts = {
    {{7, 1024}, {1}, 7, 1024, 1},
    {{5, 37}, {1}, 5, 37, 1},
    {{3, 2}, {1}, 3, 2, 1},
    {{9, 1}, {1}, 9, 1, 1},
    {{1, 200'003}, {1}, 1, 200'003, 1},
    {{3, 4, 50'000}, {1, 2}, 3, 200'000, 1},
    {{60, 33}, {0}, 1, 60, 33},
    {{4, 50, 3}, {1}, 4, 50, 3},
    {{2, 9, 130}, {1}, 2, 9, 130},
    {{100'000, 5}, {0}, 1, 100'000, 5},
    {{3, 5, 7}, {0, 1, 2}, 1, 105, 1},
    {{4, 6}, {}, 24, 1, 1},
};

TEST(ProductGradient, multiplies_what_is_left) {
  for (const Product &p : kProducts) {
    const Floats g = test::randomFloats(p.outer * p.inner, 3);
    Floats x = test::randomFloats(p.outer * p.reduced * p.inner, 4);
    // so that long products stay near 1
    for (float &v : x) v = (v < 0 ? -1.0f : 1.0f) + 0.01f * v / std::sqrt(static_cast<float>(p.reduced));
    expectGradient(p, g, x, "shape " + toText(p.shape));
    // Results with one zero, two, and both kinds next to each other.
    for (size_t i = 0; i < x.size(); i += 101) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
    expectGradient(p, g, x, "zeros in shape " + toText(p.shape));
    x = Floats(x.size(), 1.5f);
    x.front() = 0, x.back() = 0;
    if (p.reduced < 20'000) expectGradient(p, g, x, "zeros at both ends of shape " + toText(p.shape));
  }
}

TEST(ProductGradient, keeps_what_a_quotient_would_lose) {
  const std::vector<Floats> rows = {
      {1e30f, 1e30f, 1e-30f, 2.0f},            // FLOAT overflows on the way
      {3e38f, 3e38f, 1e-44f, 3e-45f, 1e-38f},  // subnormal numbers
      {kInfinity, 0.5f, -2.0f, 3.0f},          // finite where the infinity is left out
      {-kInfinity, kInfinity, -1.0f, 2.0f},
      {kInfinity, 0.0f, 2.0f, 1.0f},  // NaN where both are left
      {kNan, 2.0f, 3.0f, -1.0f},      // 6 where NaN is left out
      {0.0f, kNan, 1.0f, 2.0f},
      {0.0f, 0.0f, kInfinity, 1.0f},
      {3e38f, 3e38f, 3e38f, 3e38f},      // infinite
      {1e-30f, 1e-30f, 1e-30f, 1e-30f},  // 0
      {-0.0f, 3e38f, 3e38f, 1e-38f},
  };
  for (const Floats &row : rows)
    for (const int64_t ones : {int64_t{0}, int64_t{60}, int64_t{70'000}}) {
      Floats x = row;
      x.resize(row.size() + static_cast<size_t>(ones), 1.0f);
      const auto width = static_cast<int64_t>(x.size());
      for (const float g : {1.0f, -0.25f, 1e-30f, 1e30f})
        expectGradient({{1, width}, {1}, 1, width, 1}, {g}, x, "row of " + std::to_string(row[0]));
      Floats columns;  // together with ordinary ones
      for (const float v : x) columns.insert(columns.end(), {1.5f, v, 1.0f});
      for (size_t i = 3 * row.size(); i < columns.size(); i += 3) columns[i] = 1.0f;
      expectGradient({{width, 3}, {0}, 1, width, 3}, {1.0f, 2.0f, 3.0f}, columns,
                     "column of " + std::to_string(row[0]));
    }
}

// The product leaves the range of double, and comes back.
TEST(ProductGradient, has_no_range_on_the_way) {
  for (const float size : {1e30f, 1e-30f}) {
    Floats x(80, size);
    x.insert(x.end(), 79, 1.0f / size);
    const auto width = static_cast<int64_t>(x.size());
    expectGradient({{1, width}, {1}, 1, width, 1}, {0.5f}, x, "row of " + std::to_string(size));
    expectGradient({{width, 1}, {0}, 1, width, 1}, {0.5f}, x, "column of " + std::to_string(size));
  }
}

}  // namespace
}  // namespace popart
