// Row kernels against formulas in double over widths around the vector length; partitions must agree to the bit.
#include "backends/cpu/kernels/rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/vector/reduce_ops.hpp"

namespace popart::cpu {
namespace {

using Floats = std::vector<float>;
constexpr int64_t kWidths[] = {1, 3, 15, 16, 17, 64, 67, 300};

Floats randomFloats(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> values(0.3f, 2.0f);
  Floats result(static_cast<size_t>(count));
  for (float &value : result) value = values(engine);
  return result;
}

TEST(Softmax, matches_the_formula_and_its_gradient) {
  for (int64_t cols : kWidths) {
    const int64_t rows = 3;
    const Floats x = randomFloats(rows * cols, 1), dy = randomFloats(rows * cols, 2);
    Floats y(x.size()), logY(x.size()), dx(x.size()), logDx(x.size());
    softmaxRows(SoftmaxForm::kProbability, x.data(), y.data(), rows, cols);
    softmaxRows(SoftmaxForm::kLogarithm, x.data(), logY.data(), rows, cols);
    softmaxGradientRows(SoftmaxForm::kProbability, y.data(), dy.data(), dx.data(), rows, cols);
    softmaxGradientRows(SoftmaxForm::kLogarithm, logY.data(), dy.data(), logDx.data(), rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, dot = 0, total = 0;
      for (int64_t c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(x[r * cols + c]));
      for (int64_t c = 0; c < cols; ++c) {
        dot += std::exp(static_cast<double>(x[r * cols + c])) / sum * dy[r * cols + c];
        total += dy[r * cols + c];
      }
      for (int64_t i = r * cols; i < (r + 1) * cols; ++i) {
        const double p = std::exp(static_cast<double>(x[i])) / sum;
        ASSERT_NEAR(y[i], p, 1e-6);
        ASSERT_NEAR(logY[i], std::log(p), 4e-6);
        ASSERT_NEAR(dx[i], p * (dy[i] - dot), 4e-6);
        ASSERT_NEAR(logDx[i], dy[i] - p * total, 4e-6 * (1 + std::abs(total)));
      }
    }
  }
}

TEST(Softmax, survives_large_arguments_and_works_in_place) {
  const float inf = std::numeric_limits<float>::infinity();
  Floats x = {1e30f, -inf, 1e30f, -1e30f};
  softmaxRows(SoftmaxForm::kProbability, x.data(), x.data(), 1, 4);
  EXPECT_EQ(x, (Floats{0.5f, 0.0f, 0.5f, 0.0f}));
  Floats masked = {-inf, -inf};
  softmaxRows(SoftmaxForm::kProbability, masked.data(), masked.data(), 1, 2);
  EXPECT_TRUE(std::isnan(masked[0]) && std::isnan(masked[1]));
  Floats broken(40, 1.0f);
  broken[7] = NAN;
  softmaxRows(SoftmaxForm::kProbability, broken.data(), broken.data(), 1, 40);
  for (float v : broken) EXPECT_TRUE(std::isnan(v));
}

// A row that is masked whole, which nothing reads.
TEST(Softmax, gradient_of_a_row_without_gradients_is_zero_for_any_output) {
  for (int64_t cols : kWidths)
    for (const SoftmaxForm form : {SoftmaxForm::kProbability, SoftmaxForm::kLogarithm}) {
      const Floats y(static_cast<size_t>(cols), NAN), dy(y.size(), 0.0f);
      Floats dx(y.size(), 7.0f);
      softmaxGradientRows(form, y.data(), dy.data(), dx.data(), 1, cols);
      EXPECT_EQ(dx, dy);
    }
}

void expectNorm(NormForm form, int64_t cols) {
  const bool isCentred = form == NormForm::kCentred;
  const int64_t rows = 5;
  const Floats x = randomFloats(rows * cols, 3), dy = randomFloats(rows * cols, 4), scale = randomFloats(cols, 5),
               bias = randomFloats(cols, 6);
  const LayerNorm norm{scale.data(), isCentred ? bias.data() : nullptr, 1e-3f, form};
  Floats y(x.size()), dx(x.size()), mean(rows), inverse(rows), dScale(cols), dBias(cols);
  layerNormRows(norm, x.data(), y.data(), mean.data(), inverse.data(), rows, cols);
  layerNormGradientRows(norm, x.data(), dy.data(), mean.data(), inverse.data(), dx.data(), rows, cols);
  layerNormParameterGradient(DataType::FLOAT, x.data(), dy.data(), mean.data(), inverse.data(), DataType::FLOAT,
                             dScale.data(), isCentred ? dBias.data() : nullptr, rows, cols, 0, cols);
  std::vector<double> expectedScale(cols), expectedBias(cols);
  for (int64_t r = 0; r < rows; ++r) {
    double mu = 0, var = 0, sumG = 0, sumGH = 0;
    for (int64_t c = 0; c < cols && isCentred; ++c) mu += x[r * cols + c] / static_cast<double>(cols);
    for (int64_t c = 0; c < cols; ++c)
      var += (x[r * cols + c] - mu) * (x[r * cols + c] - mu) / static_cast<double>(cols);
    const double inv = 1 / std::sqrt(var + 1e-3);
    const auto h = [&](int64_t c) { return (x[r * cols + c] - mu) * inv; };
    const auto g = [&](int64_t c) { return static_cast<double>(dy[r * cols + c]) * scale[c]; };
    for (int64_t c = 0; c < cols; ++c) {
      sumG += isCentred ? g(c) : 0;
      sumGH += g(c) * h(c);
      expectedScale[c] += dy[r * cols + c] * h(c);
      expectedBias[c] += isCentred ? dy[r * cols + c] : 0;
    }
    const double scaleOfError = 1e-5 * inv * (1 + std::abs(sumGH) / static_cast<double>(cols));
    for (int64_t c = 0; c < cols; ++c) {
      ASSERT_NEAR(y[r * cols + c], h(c) * scale[c] + (isCentred ? bias[c] : 0), 2e-5);
      ASSERT_NEAR(dx[r * cols + c], inv * (g(c) - sumG / cols - h(c) * sumGH / cols), scaleOfError * 4) << cols;
    }
  }
  for (int64_t c = 0; c < cols; ++c) {
    ASSERT_NEAR(dScale[c], expectedScale[c], 1e-4);
    ASSERT_NEAR(dBias[c], expectedBias[c], 1e-5);
  }
  Floats sameMean(rows), sameInverse(rows);
  layerNormRows(norm, x.data(), nullptr, sameMean.data(), sameInverse.data(), rows, cols);
  ASSERT_TRUE(sameMean == mean && sameInverse == inverse) << "statistics alone, of " << cols << " columns";
}

TEST(LayerNorm, matches_the_formula_and_its_gradients) {
  for (const int64_t cols : kWidths) expectNorm(NormForm::kCentred, cols);
}

TEST(LayerNorm, of_root_mean_squares_matches_the_formula_and_its_gradients) {
  for (const int64_t cols : kWidths) expectNorm(NormForm::kRootMeanSquare, cols);
}

TEST(Sums, of_exponentials_and_products_in_double_match) {
  for (int64_t cols : kWidths) {
    const int64_t rows = 37;
    const Floats x = randomFloats(rows * cols, 8), shift = randomFloats(cols, 9);
    Floats sums(cols);
    std::vector<double> products(cols), pieces(cols);
    reduceColumns(ReduceOp::kSumExp, x.data(), cols, rows, cols, sums.data(), shift.data());
    reduceColumns(DoubleReduceOp::kProduct, x.data(), cols, rows, cols, products.data());
    for (int64_t begin = 0; begin < cols; begin += 5)
      reduceColumns(DoubleReduceOp::kProduct, x.data() + begin, cols, rows, std::min<int64_t>(5, cols - begin),
                    &pieces[begin]);
    EXPECT_EQ(pieces, products);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, exponentials = 0, product = 1;
      for (int64_t c = 0; c < cols; ++c) {
        const double v = x[r * cols + c];
        sum += v, product *= v, exponentials += std::exp(v - 1.5);
      }
      const float *row = x.data() + r * cols;
      ASSERT_NEAR(reduceRow(ReduceOp::kSumExp, row, cols, 1.5f) / exponentials, 1, 1e-6);
      ASSERT_NEAR(reduceRow(DoubleReduceOp::kProduct, row, cols) / product, 1, 1e-12);
      ASSERT_NEAR(reduceRow(DoubleReduceOp::kSum, row, cols), sum, 1e-12 * static_cast<double>(cols));
    }
    for (int64_t c = 0; c < cols; ++c) {
      double exponentials = 0, product = 1;
      for (int64_t r = 0; r < rows; ++r) {
        product *= x[r * cols + c];
        exponentials += std::exp(static_cast<double>(x[r * cols + c]) - shift[c]);
      }
      ASSERT_NEAR(sums[c] / exponentials, 1, 1e-6);
      ASSERT_NEAR(products[c] / product, 1, 1e-12);
    }
  }
  EXPECT_EQ(reduceRow(DoubleReduceOp::kProduct, nullptr, 0), 1);
}

TEST(Sums, match_and_do_not_depend_on_the_partition) {
  for (int64_t cols : kWidths) {
    const int64_t rows = 37;
    const Floats x = randomFloats(rows * cols, 7);
    Floats byColumn(cols), pieces(cols);
    reduceColumns(ReduceOp::kSum, x.data(), cols, rows, cols, byColumn.data());
    for (int64_t begin = 0; begin < cols; begin += 5)
      reduceColumns(ReduceOp::kSum, x.data() + begin, cols, rows, std::min<int64_t>(5, cols - begin), &pieces[begin]);
    EXPECT_EQ(pieces, byColumn);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c) sum += x[r * cols + c];
      ASSERT_NEAR(reduceRow(ReduceOp::kSum, x.data() + r * cols, cols), sum, 1e-4);
    }
    for (int64_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += x[r * cols + c];
      ASSERT_NEAR(byColumn[c], sum, 1e-4);
    }
  }
  Floats none(4, NAN);
  reduceColumns(ReduceOp::kSum, nullptr, 4, 0, 4, none.data());
  EXPECT_EQ(none, Floats(4, 0.0f));
}

}  // namespace
}  // namespace popart::cpu
