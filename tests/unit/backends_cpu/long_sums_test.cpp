// Reductions of many elements to few results: cut into leaves, accurate, and the same bits for any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../support/random_floats.hpp"
#include "support/run_op.hpp"

namespace popart {
namespace {

using Floats = std::vector<float>;
using test::randomFloats;

struct LongSum {
  const char *type;
  Shape shape;
  std::vector<int64_t> axes;
  int64_t inner;  // results lie next to each other: element i belongs to result i % inner
};

double expectedOf(const std::string &type, const Floats &x, int64_t inner, int64_t column) {
  double sum = 0, squares = 0, sizes = 0, largest = x[static_cast<size_t>(column)];
  for (size_t i = static_cast<size_t>(column); i < x.size(); i += static_cast<size_t>(inner)) {
    const double v = x[i];
    sum += v, squares += v * v, sizes += std::abs(v), largest = std::max(largest, v);
  }
  if (type == "ReduceMean") return sum / (static_cast<double>(x.size()) / static_cast<double>(inner));
  if (type == "ReduceSumSquare") return squares;
  if (type == "ReduceL1") return sizes;
  if (type == "ReduceL2") return std::sqrt(squares);
  return type == "ReduceMax" ? largest : sum;
}

TEST(LongSums, AreAccurateAndDoNotDependOnThreads) {
  const std::vector<LongSum> sums = {
      {"ReduceMean", {1 << 21}, {0}, 1},      {"ReduceSum", {1, 700'001}, {0, 1}, 1},
      {"ReduceSumSquare", {1 << 21}, {0}, 1}, {"ReduceL2", {1000, 1000}, {0, 1}, 1},
      {"ReduceSum", {200'000, 7}, {0}, 7},    {"ReduceMean", {40'003, 33}, {0}, 33},
      {"ReduceL1", {2000, 64}, {0}, 64},      {"ReduceMax", {3, 100'000}, {0, 1}, 1},
      {"ReduceLogSum", {300'000}, {0}, 1},    {"ReduceSumSquare", {700, 3001}, {0}, 3001},
  };
  for (const LongSum &sum : sums) {
    const TensorInfo info(DataType::FLOAT, sum.shape);
    Floats x = randomFloats(info.nelms(), 5);
    for (float &v : x) v = v * 0.5f + 1.0f;
    const SingleOp op{sum.type, {{"axes", sum.axes}, {"keepdims", int64_t{0}}}, {TensorData(info, x.data())}, 1};
    const TensorData one = runOp(op, {OpBackend::Best, OpOperands::Plain, 1, 1})[0];
    for (const int threads : {2, 3, 8}) {
      const TensorData more = runOp(op, {OpBackend::Best, OpOperands::Plain, threads, 2})[0];
      EXPECT_TRUE(more == one) << sum.type << ", " << threads << " threads";
    }
    const std::vector<double> got = one.asDoubles();
    ASSERT_EQ(static_cast<int64_t>(got.size()), sum.inner);
    for (int64_t c = 0; c < sum.inner; ++c) {
      double expected = expectedOf(sum.type, x, sum.inner, c);
      if (sum.type == std::string("ReduceLogSum")) expected = std::log(expected);
      ASSERT_NEAR(got[static_cast<size_t>(c)] / expected, 1, 2e-6) << sum.type << " of column " << c;
    }
  }
}

}  // namespace
}  // namespace popart
