#include "backends/cpu/pool_window.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace popart::cpu {
namespace {

// Every position of the window that is inside the input, in order.
std::vector<int64_t> tapsOf(const Pool &p, int64_t depth, int64_t row, int64_t col) {
  std::vector<int64_t> taps;
  const auto position = [&](size_t d, int64_t at, int64_t tap) {
    return at * p.stride[d] - p.padLow[d] + tap * p.dilation[d];
  };
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t j = 0; j < p.kernel[1]; ++j)
      for (int64_t k = 0; k < p.kernel[2]; ++k) {
        const Spatial at = {position(0, depth, i), position(1, row, j), position(2, col, k)};
        bool isInside = true;
        for (size_t d = 0; d < 3; ++d) isInside = isInside && at[d] >= 0 && at[d] < p.in[d];
        if (isInside) taps.push_back(((at[0] * p.in[1] + at[1]) * p.in[2] + at[2]) * p.pixelOfX());
      }
  return taps;
}

TEST(PoolWindows, have_the_positions_inside_the_input_in_order) {
  int checked = 0;
  for (const Spatial &in : {Spatial{1, 1, 9}, Spatial{1, 8, 7}, Spatial{5, 4, 6}})
    for (const Spatial &kernel : {Spatial{1, 1, 2}, Spatial{1, 3, 2}, Spatial{2, 2, 3}})
      for (int64_t stride = 1; stride <= 3; ++stride)
        for (int64_t dilation = 1; dilation <= 2; ++dilation)
          for (int64_t pad = 0; pad <= 2; ++pad) {
            Pool p;
            p.channels = 3, p.in = in, p.kernel = kernel;
            for (size_t d = 0; d < 3; ++d) {
              p.stride[d] = in[d] > 1 ? stride : 1, p.dilation[d] = dilation;
              p.padLow[d] = p.padHigh[d] = kernel[d] > 1 ? pad : 0;
              const int64_t room = in[d] + 2 * p.padLow[d] - (kernel[d] - 1) * dilation - 1;
              p.out[d] = room < 0 ? 0 : room / p.stride[d] + 1;
            }
            const PoolWindows windows(p);
            std::vector<int64_t> taps(static_cast<size_t>(p.taps()));
            for (int64_t pixel = 0; pixel < p.outputPixels(); ++pixel, ++checked) {
              const int64_t line = pixel / p.out[2];
              const PoolWindow found = windows.at(pixel, taps.data());
              EXPECT_EQ(std::vector<int64_t>(found.taps.begin(), found.taps.end()),
                        tapsOf(p, line / p.out[1], line % p.out[1], pixel % p.out[2]));
              EXPECT_EQ(found.padded, p.taps());  // no window ends behind the padding here
            }
          }
  EXPECT_GT(checked, 1000);
}

}  // namespace
}  // namespace popart::cpu
