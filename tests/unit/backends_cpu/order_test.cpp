// ArgMax, ArgMin and TopK over rows and columns of many lengths, with equal numbers, infinities, zeros of both signs
// and NaN, against a stable sort; the same bits with any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "support/run_op.hpp"

namespace popart {
namespace {

using Numbers = std::vector<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Few different numbers, so that many are equal.
template <class T>
TensorData manyEqual(const Shape &shape, unsigned seed, bool hasNan) {
  std::mt19937 engine(seed);
  const Numbers choice = std::is_integral_v<T> ? Numbers{-3, 0, 7, 100} : Numbers{-2.5, -0.0, 0, 3, kInfinity};
  std::vector<T> values;
  for (int64_t i = 0, count = elementCount(shape); i < count; ++i) {
    const auto at = engine() % 16;
    if (at == 15 && hasNan && !std::is_integral_v<T>)
      values.push_back(std::numeric_limits<T>::quiet_NaN());
    else
      values.push_back(at < choice.size() ? static_cast<T>(choice[at]) : static_cast<T>(engine() % 1000 / 8));
  }
  return TensorData::of<T>(shape, values);
}

// NaN above all numbers.
bool isSmaller(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

// Places of a line in order, equal numbers by place.
std::vector<int64_t> ordered(const Numbers &line, bool fromLargest) {
  std::vector<int64_t> places(line.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
    const double x = line[static_cast<size_t>(a)], y = line[static_cast<size_t>(b)];
    return fromLargest ? isSmaller(y, x) : isSmaller(x, y);
  });
  return places;
}

std::vector<TensorData> runOnAnyThreads(const SingleOp &op) {
  EXPECT_TRUE(opFallbacks(op).empty()) << op.type << " runs on the reference";
  const auto one = runOp(op, OpRun{OpBackend::Best, OpOperands::Plain, 1, 1});
  for (int threads : {2, 3, 8}) {
    const auto more = runOp(op, OpRun{OpBackend::Best, OpOperands::Plain, threads, 2});
    for (size_t o = 0; o < one.size(); ++o) EXPECT_TRUE(one[o] == more[o]) << op.type << ", " << threads << " threads";
  }
  return one;
}

// Calls f(line, number of its first result, distance of results) for the lines along axis 1 of x [a, length, b].
void forLines(const TensorData &x, int64_t results, const std::function<void(const Numbers &, int64_t, int64_t)> &f) {
  const Shape &s = x.info().shape();
  const Numbers all = x.asDoubles();
  for (int64_t a = 0; a < s[0]; ++a)
    for (int64_t b = 0; b < s[2]; ++b) {
      Numbers line;
      for (int64_t i = 0; i < s[1]; ++i) line.push_back(all[static_cast<size_t>((a * s[1] + i) * s[2] + b)]);
      f(line, a * results * s[2] + b, s[2]);
    }
}

void checkExtremes(const TensorData &x) {
  for (const bool largest : {true, false})
    for (const bool last : {false, true}) {
      const SingleOp op{largest ? "ArgMax" : "ArgMin",
                        {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}, {"select_last_index", int64_t{last}}},
                        {x},
                        1};
      const Numbers got = runOnAnyThreads(op)[0].asDoubles();
      forLines(x, 1, [&](const Numbers &line, int64_t at, int64_t) {
        const auto places = ordered(line, largest);
        size_t n = 0;
        const double best = line[static_cast<size_t>(places[0])];
        for (size_t i = 0; last && i < places.size(); ++i) {
          const double other = line[static_cast<size_t>(places[i])];
          if (!isSmaller(best, other) && !isSmaller(other, best)) n = i;
        }
        ASSERT_EQ(got[static_cast<size_t>(at)], static_cast<double>(places[n]))
            << op.type << " of " << toText(x.info()) << " line " << at << (last ? ", last" : ", first");
      });
    }
}

void checkFirst(const TensorData &x, int64_t k) {
  for (const bool largest : {true, false}) {
    const SingleOp op{"TopK", {{"axis", int64_t{1}}, {"k", k}, {"largest", int64_t{largest}}}, {x}, 2};
    const auto results = runOnAnyThreads(op);
    const Numbers values = results[0].asDoubles(), places = results[1].asDoubles();
    forLines(x, k, [&](const Numbers &line, int64_t at, int64_t step) {
      const auto expected = ordered(line, largest);
      for (int64_t i = 0; i < k; ++i) {
        const auto j = static_cast<size_t>(at + i * step);
        const double want = line[static_cast<size_t>(expected[static_cast<size_t>(i)])];
        ASSERT_EQ(places[j], static_cast<double>(expected[static_cast<size_t>(i)]))
            << toText(x.info()) << " k " << k << ", place " << i << " of line " << at;
        ASSERT_TRUE(values[j] == want || (std::isnan(values[j]) && std::isnan(want)));
      }
    });
  }
}

TEST(CpuOrder, PlacesOfExtremes) {
  for (const Shape &shape : {Shape{3, 1, 1}, Shape{3, 17, 1}, Shape{40, 1000, 1}, Shape{2, 5000, 1}, Shape{5, 4096, 1},
                             Shape{2, 7, 5}, Shape{3, 300, 70}, Shape{1, 90, 1200}, Shape{2, 1, 33}})
    for (const bool hasNan : {false, true}) {
      checkExtremes(manyEqual<float>(shape, 1, hasNan));
      checkExtremes(manyEqual<double>(shape, 2, hasNan));
    }
  checkExtremes(manyEqual<int32_t>({5, 300, 3}, 3, false));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  checkExtremes(TensorData::of<float>({2, 40, 1}, std::vector<float>(80, nan)));
  checkExtremes(TensorData::of<float>({2, 8, 5}, std::vector<float>(80, nan)));
  checkExtremes(TensorData::of<float>({2, 40, 1}, std::vector<float>(80, -std::numeric_limits<float>::infinity())));
}

TEST(CpuOrder, FirstOfLines) {
  for (const bool hasNan : {false, true})
    for (const int64_t k : {1, 2, 8, 100, 999, 1000}) {
      checkFirst(manyEqual<float>({7, 1000, 1}, 4, hasNan), k);
      checkFirst(manyEqual<float>({2, 1000, 3}, 5, hasNan), k);
      checkFirst(manyEqual<double>({3, 1000, 1}, 6, hasNan), k);
      checkFirst(manyEqual<int8_t>({3, 1000, 2}, 7, false), k);
      checkFirst(manyEqual<uint32_t>({3, 1000, 1}, 8, false), k);
    }
}

// Each number passes those before it, or none does.
TEST(CpuOrder, FirstOfSortedLines) {
  std::vector<float> rising(3000);
  std::iota(rising.begin(), rising.end(), -1500.0f);
  for (const int64_t k : {1, 8, 500}) {
    checkFirst(TensorData::of<float>({1, 3000, 1}, rising), k);
    checkFirst(TensorData::of<float>({1, 3000, 1}, std::vector<float>(rising.rbegin(), rising.rend())), k);
  }
}

}  // namespace
}  // namespace popart
