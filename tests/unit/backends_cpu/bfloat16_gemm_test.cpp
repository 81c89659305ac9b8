// Products of BFLOAT16 matrices on the instruction for pairs: against sums in double, and bit for bit between layouts
// of the operands and partitions into tasks. Skipped where the processor has no such instruction.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <popart/half.hpp>

#include "../support/random_floats.hpp"
#include "../support/run_matmul.hpp"
#include "backends/cpu/kernels/gemm.hpp"
#include "base/threads/thread_pool.hpp"

namespace popart::cpu {
namespace {

using Floats = std::vector<float>;
using Halves = std::vector<uint16_t>;
using test::randomFloats;
using test::transposed;

class Bfloat16Matmul : public testing::Test {
 protected:
  void SetUp() override {
    if (!bfloat16Kernels()) GTEST_SKIP() << "this processor does not multiply BFLOAT16";
  }
};

Halves rounded(const Floats &values) {
  Halves result;
  for (float v : values) result.push_back(floatToBFloat16Bits(v));
  return result;
}

Floats run(const MatmulShape &shape, MatmulArgs args, int threads, ptrdiff_t rowStride) {
  Floats c(static_cast<size_t>(shape.m * rowStride), -7.0f);
  args.c = c.data(), args.cRowStride = rowStride;
  ThreadPool pool(std::min(threads, 8));
  test::runMatmul(Matmul(shape, threads), args, pool);
  return c;
}

MatmulShape shapeOf(int64_t m, int64_t n, int64_t k) {
  MatmulShape shape{m, n, k};
  shape.factors = DataType::BFLOAT16;
  return shape;
}

MatmulArgs plainArgs(const Halves &a, const Halves &b, int64_t n, int64_t k) {
  MatmulArgs args;
  args.aHalves = a.data(), args.aRowStride = k, args.bHalves = b.data(), args.bRowStride = n;
  return args;
}

// The bound of docs/decisions/0028: each of k additions rounds by at most 2^-24 of the sum of magnitudes so far.
void expectSums(const Floats &c, ptrdiff_t rowStride, const Halves &a, const Halves &b, int64_t m, int64_t n,
                int64_t k) {
  for (int64_t r = 0; r < m; ++r)
    for (int64_t col = 0; col < n; ++col) {
      double sum = 0, magnitudes = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double left = bfloat16BitsToFloat(a[r * k + i]), term = left * bfloat16BitsToFloat(b[i * n + col]);
        sum += term, magnitudes += std::abs(term);
      }
      ASSERT_NEAR(c[r * rowStride + col], sum, static_cast<double>(k) * std::ldexp(magnitudes, -24))
          << m << "x" << n << "x" << k << " at " << r << ", " << col;
    }
}

TEST_F(Bfloat16Matmul, matches_sums_in_double_for_every_layout_and_thread_count) {
  const std::array<int64_t, 3> sizes[] = {{1, 1, 1},    {1, 300, 7},    {2, 65, 40},    {3, 129, 33},  {4, 10, 5},
                                          {13, 31, 9},  {14, 32, 8},    {15, 33, 100},  {29, 70, 801}, {100, 97, 66},
                                          {60, 260, 1}, {40, 40, 1601}, {33, 512, 784}, {5, 7, 0},     {0, 4, 4}};
  for (const auto &[m, n, k] : sizes) {
    const Halves a = rounded(randomFloats(m * k + 1, 1)), b = rounded(randomFloats(k * n + 1, 2));
    const Halves aColumns = transposed(a, m, k), bColumns = transposed(b, k, n);
    Floats first;
    for (int variant = 0; variant < 20; ++variant) {
      MatmulArgs args = plainArgs(a, b, n, k);
      if (variant & 1) args.aHalves = aColumns.data(), args.aRowStride = 1, args.aColStride = m;
      if (variant & 2) args.bHalves = bColumns.data(), args.bRowStride = 1, args.bColStride = k;
      const int threads = std::array{1, 2, 3, 8, 64}[static_cast<size_t>(variant / 4)];
      const Floats c = run(shapeOf(m, n, k), args, threads, n + 3);
      if (variant == 0) {
        expectSums(c, n + 3, a, b, m, n, k);
        for (int64_t r = 0; r < m; ++r)
          for (int64_t col = n; col < n + 3; ++col) ASSERT_EQ(c[r * (n + 3) + col], -7.0f) << "wrote beyond the row";
        first = c;
      }
      ASSERT_EQ(c, first) << "variant " << variant << " of " << m << "x" << n << "x" << k;
    }
  }
}

TEST_F(Bfloat16Matmul, repeats_operands_over_a_batch_and_passes_the_epilogue) {
  const int64_t m = 5, n = 37, k = 19;
  const Halves a = rounded(randomFloats(3 * m * k, 5)), b = rounded(randomFloats(2 * k * n, 6));
  const Floats bias = randomFloats(n, 7);
  MatmulShape shape = shapeOf(m, n, k);
  shape.batch = {1, 1, 2, 3};
  MatmulArgs args = plainArgs(a, b, n, k);
  args.aBatchStride = {0, 0, 0, m * k}, args.bBatchStride = {0, 0, k * n, 0};
  Floats c(2 * 3 * m * n);
  args.c = c.data(), args.cRowStride = n, args.cBatchStride = {0, 0, 3 * m * n, m * n};
  args.epilogue.bias = bias.data();
  args.epilogue.step.op = ElementOp::kRelu;
  const Matmul matmul(shape, 2);
  Floats scratch(matmul.scratchFloats());
  for (int task = 0; task < matmul.tasks(); ++task) matmul.run(task, args, scratch.data());
  for (int64_t i = 0; i < 6; ++i) {
    const Halves left(a.begin() + i % 3 * m * k, a.begin() + (i % 3 + 1) * m * k);
    const Halves right(b.begin() + i / 3 * k * n, b.begin() + (i / 3 + 1) * k * n);
    const Floats plain = run(shapeOf(m, n, k), plainArgs(left, right, n, k), 1, n);
    for (int64_t e = 0; e < m * n; ++e)
      ASSERT_EQ(c[i * m * n + e], std::max(plain[e] + bias[e % n], 0.0f)) << "matrix " << i;
  }
}

// Lanes beyond odd depths and narrow panels are zeros, not what lay there: an infinity times such a zero would be NaN.
TEST_F(Bfloat16Matmul, keeps_infinities_and_nan_where_they_belong) {
  const int64_t m = 16, n = 35, k = 13;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float special : {infinity, -infinity, NAN}) {
    Floats a(m * k, 1.0f), b(k * n, 1.0f);
    a[3 * k + k - 1] = special;
    b[2 * n + 34] = special;
    const Floats c = run(shapeOf(m, n, k), plainArgs(rounded(a), rounded(b), n, k), 1, n);
    for (int64_t r = 0; r < m; ++r)
      for (int64_t col = 0; col < n; ++col) {
        const float got = c[r * n + col];
        if (r != 3 && col != 34)
          ASSERT_EQ(got, static_cast<float>(k));
        else if (std::isnan(special))
          ASSERT_TRUE(std::isnan(got)) << r << ", " << col;
        else
          ASSERT_EQ(got, special) << r << ", " << col;
      }
  }
}

// What the instruction does, as docs/decisions/0028 says.
TEST_F(Bfloat16Matmul, takes_subnormal_numbers_as_zeros_and_rounds_to_even) {
  const auto product = [](Floats a, Floats b) {
    const auto k = static_cast<int64_t>(a.size());
    return run(shapeOf(1, 1, k), plainArgs(rounded(a), rounded(b), 1, k), 1, 1)[0];
  };
  EXPECT_EQ(product({std::ldexp(1.0f, -130)}, {std::ldexp(1.0f, 100)}), 0.0f);
  EXPECT_EQ(product({std::ldexp(1.0f, -70)}, {std::ldexp(1.0f, -70)}), 0.0f);
  EXPECT_EQ(product({std::ldexp(1.0f, -60)}, {std::ldexp(1.0f, -60)}), std::ldexp(1.0f, -120));
  EXPECT_EQ(product({1.0f, 0.0f, std::ldexp(1.0f, -24)}, {1.0f, 0.0f, 1.0f}), 1.0f);
  EXPECT_EQ(product({1.0f, 0.0f, std::ldexp(1.5f, -24)}, {1.0f, 0.0f, 1.0f}), 1.0f + std::ldexp(1.0f, -23));
}

}  // namespace
}  // namespace popart::cpu
