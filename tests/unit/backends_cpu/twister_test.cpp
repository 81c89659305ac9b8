// The generator against that of the C++ library, and normal numbers against the shares that the error function gives.
#include "backends/cpu/vector/twister.hpp"

#include <cmath>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <popart/error.hpp>

#include "backends/cpu/normal_numbers.hpp"

namespace popart::cpu {
namespace {

// The state of the library's generator, which it writes as its words; `drawn` of them were drawn.
Twister twisterOf(std::mt19937 library, int drawn) {
  Twister twister;
  std::stringstream text;
  text << library;
  for (uint32_t &word : twister.key) text >> word;
  skipWords(twister, Twister::kWords - twister.position + drawn);
  return twister;
}

double nextShare(std::mt19937 &library) {
  const uint32_t high = library() >> 5, low = library() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

// Share of the normal numbers from -2 to 2 that lie below x.
double shareBelow(double x) {
  const auto below = [](double t) { return std::erfc(-t / std::sqrt(2.0)) / 2; };
  return (below(x) - below(-2)) / (below(2) - below(-2));
}

class Draws : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Draws, are_normal_numbers_of_the_librarys_words) {
  const auto [drawn, count] = GetParam();
  std::mt19937 library(7);
  Twister twister = twisterOf(library, drawn), again = twister;
  library.discard(static_cast<unsigned long long>(drawn));
  std::vector<double> numbers(static_cast<size_t>(count));
  std::vector<float> rounded(numbers.size());
  drawCutNormal(twister, 1.0, numbers.data(), count);
  drawCutNormal(again, 1.0, rounded.data(), count);
  for (size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_NEAR(shareBelow(numbers[i]), nextShare(library), 1e-15) << "number " << i;
    ASSERT_EQ(rounded[i], static_cast<float>(numbers[i])) << "number " << i;
  }
  double following = 0;
  drawCutNormal(twister, 1.0, &following, 1);
  EXPECT_NEAR(shareBelow(following), nextShare(library), 1e-15);
}

INSTANTIATE_TEST_SUITE_P(Places, Draws,
                         ::testing::Combine(::testing::Values(0, 1, 226, 227, 623, 624, 1000),
                                            ::testing::Values(0, 1, 311, 312, 313, 5000)));

TEST(Twister, skips_as_many_words_as_it_is_told) {
  for (const int64_t count : {0, 1, 623, 624, 625, 100000}) {
    std::mt19937 library(3);
    Twister twister = twisterOf(library, 5);
    skipWords(twister, count);
    library.discard(static_cast<unsigned long long>(5 + count));
    double number = 0;
    drawCutNormal(twister, 1.0, &number, 1);
    EXPECT_NEAR(shareBelow(number), nextShare(library), 1e-15) << "after " << count;
  }
}

TEST(CutNormal, has_the_shares_of_the_error_function) {
  std::vector<double> shares, numbers;
  for (int i = 0; i <= 10000; ++i) shares.push_back(i / 10000.0);
  numbers.resize(shares.size());
  cutNormal(shares.data(), 1.0, numbers.data(), static_cast<int64_t>(shares.size()));
  for (size_t i = 0; i < shares.size(); ++i) ASSERT_NEAR(shareBelow(numbers[i]), shares[i], 2e-16 + 1e-15 * shares[i]);
  EXPECT_NEAR(numbers.front(), -2, 1e-14);
  EXPECT_NEAR(numbers.back(), 2, 1e-14);
  EXPECT_EQ(numbers[5000], 0);
}

TEST(NormalNumbers, are_the_same_on_any_number_of_threads) {
  constexpr int64_t kCount = 700'001;  // shares of several threads, the last one not full
  const Twister start = twisterOf(std::mt19937(11), 77);
  Twister plain = start, moved = start;
  skipWords(plain, 2 * 1234);
  std::vector<float> expected(kCount), made(kCount);
  drawCutNormal(plain, 0.5, expected.data(), kCount);
  const NormalNumbers numbers(moved, 1234, kCount);
  EXPECT_EQ(moved.position, plain.position);
  EXPECT_EQ(moved.key, plain.key);
  for (const int threads : {1, 2, 5}) {
    std::fill(made.begin(), made.end(), 9.0f);
    numbers.make(0.5, made.data(), threads);
    EXPECT_EQ(made, expected) << threads << " threads";
  }
}

TEST(NormalNumbers, refuse_a_state_that_is_none) {
  Twister twister;
  twister.position = 625;
  EXPECT_THROW(NormalNumbers(twister, 0, 1), error);
  twister.position = 0;
  EXPECT_THROW(NormalNumbers(twister, -1, 1), error);
  EXPECT_THROW(NormalNumbers(twister, 0, -1), error);
}

}  // namespace
}  // namespace popart::cpu
