// Maxima of pooling windows, channels last, against a loop: the first NaN wins, and the first of equal values.
#include "backends/cpu/vector/windows.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <vector>

namespace popart::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

float expectedMaximum(const std::vector<float> &x, const std::vector<int64_t> &taps, int64_t channel) {
  float best = -kInfinity;
  bool isFirst = true;
  for (const int64_t tap : taps) {
    const float v = x[static_cast<size_t>(tap + channel)];
    if (isFirst || (best == best && !(v <= best))) best = v;
    isFirst = false;
  }
  return best;
}

// Values of `few`, so that many are equal, or any between -1 and 1 when there are none.
void expectMaxima(const std::vector<float> &few) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> any(-1, 1);
  for (const int64_t channels : {1, 7, 16, 33, 64, 100})
    for (const int64_t count : {0, 1, 2, 4, 9, 25}) {
      std::vector<float> x(static_cast<size_t>(channels * 30)), y(static_cast<size_t>(channels) + 1, 7.0f);
      for (float &v : x) v = few.empty() ? any(random) : few[random() % few.size()];
      std::vector<int64_t> taps;
      for (int64_t t = 0; t < count; ++t) taps.push_back(static_cast<int64_t>(random() % 30) * channels);
      maximumOfTaps(x.data(), taps, channels, y.data());
      for (int64_t c = 0; c < channels; ++c)
        ASSERT_EQ(std::bit_cast<uint32_t>(y[static_cast<size_t>(c)]),
                  std::bit_cast<uint32_t>(expectedMaximum(x, taps, c)))
            << channels << " channels, " << count << " taps, channel " << c;
      ASSERT_EQ(y.back(), 7.0f) << "wrote beyond the pixel";
    }
}

TEST(Windows, MaximaOfNumbers) { expectMaxima({}); }
TEST(Windows, TheFirstOfEqualValuesIsTheMaximum) { expectMaxima({0.0f, -0.0f}); }
TEST(Windows, InfinitiesThatCancelAreNoNaN) { expectMaxima({kInfinity, -kInfinity, 1.0f}); }
TEST(Windows, TheFirstNaNIsTheMaximum) { expectMaxima({kNaN, -kNaN, kInfinity, -kInfinity, 2.0f, 0.0f, -0.0f}); }

}  // namespace
}  // namespace popart::cpu
