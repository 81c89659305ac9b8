// ReduceMedian and Bucketize against the reference backend: every element type, equal numbers, NaN, groups of any
// axes, boundaries in any order and number; with every instruction set and any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "../support/against_reference.hpp"
#include "../support/instruction_sets.hpp"
#include "base/element_types.hpp"

namespace popart {
namespace {

using Axes = std::vector<int64_t>;

// Few or many different numbers; floats with zeros of both signs, infinities and, where asked, NaN.
template <class T>
std::vector<T> someOf(int64_t count, unsigned seed, bool isFew, bool hasNan) {
  std::mt19937 random(seed);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = random() % 64;
    const int number = static_cast<int>(random() % (isFew ? 5 : 100'000));
    if constexpr (std::is_integral_v<T>) {
      values.push_back(at == 0   ? std::numeric_limits<T>::max()
                       : at == 1 ? std::numeric_limits<T>::lowest()
                                 : static_cast<T>(number - (std::is_signed_v<T> ? 2 : 0)));
    } else {
      const float special[] = {0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
      const float value = at < 4             ? special[at]
                          : at < 8 && hasNan ? std::numeric_limits<float>::quiet_NaN()
                                             : static_cast<float>(number - 2) / 64.0f;
      values.push_back(asElement<T>(value));
    }
  }
  return values;
}

void check(const SingleOp &op) {
  test::compareWithReference(op, 0);
  test::expectSameOnThreads(op);
}

template <class T>
void checkMedian(const Shape &shape, const Axes &axes, const std::vector<T> &values) {
  for (const int64_t indexType : {6, 7})
    check({"ReduceMedian", {{"axes", axes}, {"index_type", indexType}}, {TensorData::of<T>(shape, values)}, 2});
  check({"ReduceMedian", {{"axes", axes}, {"keepdims", int64_t{0}}}, {TensorData::of<T>(shape, values)}, 1});
}

const std::vector<std::pair<Shape, Axes>> kGroups = {
    {{5, 7}, {1}},      {{5, 7}, {0}},          {{5, 7}, {0, 1}},          {{3, 300, 37}, {1}}, {{3, 30, 37}, {0, 2}},
    {{2, 5000}, {1}},   {{70, 33, 3}, {0}},     {{4, 1, 6}, {1}},          {{5000}, {0}},       {{6, 1024}, {1}},
    {{3, 4, 5, 6}, {}}, {{2, 3, 4, 5}, {1, 3}}, {{2, 3, 4, 50}, {0, 1, 2}}};

TEST(CpuSelection, MediansOfGroups) {
  for (const auto &[shape, axes] : kGroups)
    for (const bool isFew : {false, true})
      for (const bool hasNan : {false, true})
        checkMedian<float>(shape, axes, someOf<float>(elementCount(shape), 1, isFew, hasNan));
}

TEST(CpuSelection, MediansOfEveryType) {
  for (const auto &[shape, axes] : std::vector<std::pair<Shape, Axes>>{{{3, 300, 7}, {1}}, {{4, 90, 5}, {1, 2}}})
    for (const bool isFew : {false, true}) {
      const int64_t count = elementCount(shape);
      checkMedian(shape, axes, someOf<double>(count, 2, isFew, true));
      checkMedian(shape, axes, someOf<Half>(count, 3, isFew, true));
      checkMedian(shape, axes, someOf<BFloat16>(count, 4, isFew, true));
      checkMedian(shape, axes, someOf<int8_t>(count, 5, isFew, false));
      checkMedian(shape, axes, someOf<uint8_t>(count, 6, isFew, false));
      checkMedian(shape, axes, someOf<int16_t>(count, 7, isFew, false));
      checkMedian(shape, axes, someOf<uint16_t>(count, 8, isFew, false));
      checkMedian(shape, axes, someOf<int32_t>(count, 9, isFew, false));
      checkMedian(shape, axes, someOf<uint32_t>(count, 10, isFew, false));
      checkMedian(shape, axes, someOf<int64_t>(count, 11, isFew, false));
      checkMedian(shape, axes, someOf<uint64_t>(count, 12, isFew, false));
    }
}

TEST(CpuSelection, MediansOfRowsInOrder) {
  std::vector<float> rising(3001);
  std::iota(rising.begin(), rising.end(), -1500.0f);
  checkMedian<float>({3001}, {0}, rising);
  checkMedian<float>({3001}, {0}, std::vector<float>(rising.rbegin(), rising.rend()));
  for (const float value : {1.0f, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    checkMedian<float>({2, 500}, {1}, std::vector<float>(1000, value));
}

template <class T>
void checkBuckets(int64_t length, int64_t boundaries, bool isSorted) {
  std::vector<T> among = someOf<T>(boundaries, 1, false, !isSorted);
  if (isSorted)
    std::sort(among.begin(), among.end(), [](T a, T b) { return static_cast<double>(a) < static_cast<double>(b); });
  std::vector<T> x = someOf<T>(length, 2, false, true);
  for (size_t i = 0; i < x.size() && !among.empty(); i += 3) x[i] = among[i % among.size()];
  for (const int64_t right : {0, 1})
    check(
        {"Bucketize", {{"right", right}}, {TensorData::of<T>({length}, x), TensorData::of<T>({boundaries}, among)}, 1});
}

TEST(CpuSelection, BucketsOfAnyNumberOfBoundaries) {
  for (const bool isSorted : {true, false}) {
    for (const int64_t boundaries : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 1000})
      for (const int64_t length : {1, 33, 257}) checkBuckets<float>(length, boundaries, isSorted);
    checkBuckets<float>(40'001, 64, isSorted);
    checkBuckets<double>(20'001, 100, isSorted);
    checkBuckets<Half>(20'001, 20, isSorted);
    checkBuckets<BFloat16>(501, 20, isSorted);
    checkBuckets<int32_t>(20'001, 30, isSorted);
    checkBuckets<uint8_t>(501, 30, isSorted);
    checkBuckets<int64_t>(501, 30, isSorted);
  }
}

TEST(CpuSelection, EveryInstructionSet) {
  test::forAllInstructionSets([] {
    checkMedian<float>({7, 1000}, {1}, someOf<float>(7000, 1, false, true));
    checkMedian<float>({7, 1000}, {1}, someOf<float>(7000, 1, true, true));
    checkMedian<int16_t>({100, 33}, {0}, someOf<int16_t>(3300, 1, false, false));
    for (const int64_t boundaries : {1, 5, 9, 20, 40, 64, 300}) checkBuckets<float>(1001, boundaries, false);
  });
}

}  // namespace
}  // namespace popart
