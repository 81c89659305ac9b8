// Shapes and data of convolutions for tests, and the direct loops that they are compared with.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/conv.hpp"
#include "backends/cpu/kernels/window_dots.hpp"
#include "base/threads/thread_pool.hpp"
#include "conv_weights.hpp"
#include "halves.hpp"
#include "random_floats.hpp"

namespace popart::test {

using cpu::ConvShape;
using cpu::ConvWeightTranspose;
using cpu::Spatial;
using cpu::volume;

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// Shapes that Winograd's algorithm computes, in all passes: one line of outputs too much, and none; channels that fill
// no vector; groups; several images in depth; pads on one side; several chunks of tiles; weights that exceed a second
// level cache of 1 MiB; no images; weight gradients of several leaves.
inline std::vector<ConvShape> winogradShapes() {
  const Spatial kernel = {1, 3, 3}, ones = {0, 1, 1};
  std::vector<ConvShape> all = {
      {.n = 2, .in = {1, 8, 8}, .cin = 32, .cout = 32, .padLow = ones, .padHigh = ones},
      {.n = 2, .in = {1, 13, 17}, .cin = 40, .cout = 72},
      {.n = 3, .in = {1, 20, 21}, .cin = 96, .cout = 70, .groups = 2, .padLow = {0, 2, 0}, .padHigh = {0, 1, 2}},
      {.n = 2, .in = {3, 9, 10}, .cin = 33, .cout = 50, .padLow = ones, .padHigh = ones},
      {.n = 2, .in = {1, 30, 31}, .cin = 64, .cout = 130, .padLow = ones, .padHigh = ones},
      {.n = 1, .in = {1, 7, 12}, .cin = 300, .cout = 170, .padLow = ones, .padHigh = ones},
      {.n = 0, .in = {1, 14, 14}, .cin = 64, .cout = 64, .padLow = ones, .padHigh = ones},
      {.n = 2, .in = {1, 66, 64}, .cin = 64, .cout = 16, .padLow = ones, .padHigh = ones},
  };
  for (ConvShape &s : all) s.kernel = kernel, s.anySumOrder = true;
  return all;
}

inline std::vector<ConvShape> shapes() {
  std::vector<ConvShape> all = {
      {.n = 2, .in = {1, 9, 11}, .cin = 5, .cout = 7, .kernel = {1, 3, 3}, .padLow = {0, 1, 1}, .padHigh = {0, 1, 1}},
      {.n = 1,
       .in = {1, 15, 13},
       .cin = 3,
       .cout = 40,
       .kernel = {1, 7, 7},
       .stride = {1, 2, 2},
       .padLow = {0, 3, 3},
       .padHigh = {0, 3, 3}},
      {.n = 3, .in = {1, 6, 6}, .cin = 40, .cout = 33, .kernel = {1, 1, 1}},
      {.n = 2, .in = {1, 7, 8}, .cin = 6, .cout = 4, .kernel = {1, 1, 1}, .stride = {1, 2, 2}},
      {.n = 1,
       .in = {1, 10, 12},
       .cin = 8,
       .cout = 12,
       .groups = 2,
       .kernel = {1, 3, 2},
       .dilation = {1, 2, 3},
       .padLow = {0, 2, 0},
       .padHigh = {0, 1, 3}},
      {.n = 2,
       .in = {1, 8, 8},
       .cin = 6,
       .cout = 12,
       .groups = 6,
       .kernel = {1, 3, 3},
       .stride = {1, 1, 2},
       .padLow = {0, 1, 1},
       .padHigh = {0, 1, 1}},
      {.n = 1,
       .in = {5, 6, 4},
       .cin = 3,
       .cout = 5,
       .kernel = {3, 2, 3},
       .stride = {2, 1, 1},
       .padLow = {1, 0, 2},
       .padHigh = {0, 1, 1}},
      {.n = 2,
       .in = {1, 1, 30},
       .cin = 4,
       .cout = 9,
       .kernel = {1, 1, 5},
       .stride = {1, 1, 3},
       .padLow = {0, 0, 2},
       .padHigh = {0, 0, 2}},
      {.n = 1, .in = {1, 4, 4}, .cin = 70, .cout = 65, .kernel = {1, 3, 3}, .padLow = {0, 1, 1}, .padHigh = {0, 1, 1}},
      {.n = 1, .in = {1, 3, 3}, .cin = 2, .cout = 3, .kernel = {1, 2, 2}, .padLow = {0, 4, 4}, .padHigh = {0, 4, 4}},
      {.n = 1, .in = {1, 2, 2}, .cin = 2, .cout = 3, .kernel = {1, 5, 5}},
      {.n = 2,
       .in = {1, 7, 9},
       .cin = 71,
       .cout = 71,
       .groups = 71,
       .kernel = {1, 3, 3},
       .stride = {1, 2, 2},
       .padLow = {0, 1, 1},
       .padHigh = {0, 1, 1}},
      // Lines longer than a chunk: pieces of several lines, a remainder of lines, strides and dilations of both.
      {.n = 1, .in = {1, 7, 301}, .cin = 5, .cout = 7, .kernel = {1, 3, 3}, .padLow = {0, 1, 1}, .padHigh = {0, 1, 1}},
      {.n = 1,
       .in = {1, 21, 501},
       .cin = 3,
       .cout = 4,
       .kernel = {1, 3, 2},
       .stride = {1, 2, 2},
       .dilation = {1, 2, 3},
       .padLow = {0, 3, 0},
       .padHigh = {0, 0, 4}},
      // Rows of a tile that are 4 KiB apart, forward and in the data gradient; single taps that pass over pixels.
      {.n = 1, .in = {1, 1, 63}, .cin = 512, .cout = 3, .kernel = {1, 1, 3}, .stride = {1, 1, 2}},
      {.n = 2, .in = {1, 7, 33}, .cin = 512, .cout = 5, .kernel = {1, 1, 1}, .stride = {1, 2, 2}},
      {.n = 1, .in = {1, 2, 19}, .cin = 3, .cout = 1024, .kernel = {1, 1, 2}},
      {.n = 1,
       .in = {1, 6, 35},
       .cin = 1024,
       .cout = 3,
       .kernel = {1, 3, 1},
       .stride = {1, 2, 2},
       .padLow = {0, 1, 3},
       .padHigh = {0, 1, 2}},
      {.n = 1,
       .in = {3, 4, 20},
       .cin = 5,
       .cout = 5,
       .groups = 5,
       .kernel = {2, 1, 4},
       .stride = {1, 2, 3},
       .dilation = {1, 1, 2},
       .padLow = {1, 0, 2},
       .padHigh = {0, 0, 3}},
      {.n = 2,
       .in = {1, 13, 12},
       .cin = 64,
       .cout = 64,
       .groups = 64,
       .kernel = {1, 5, 5},
       .padLow = {0, 2, 2},
       .padHigh = {0, 2, 2}},
      {.n = 0, .in = {1, 5, 5}, .cin = 2, .cout = 3, .kernel = {1, 3, 3}},
      {.n = 5, .in = {1, 6, 6}, .cin = 9, .cout = 40, .kernel = {1, 3, 3}, .padLow = {0, 1, 1}, .padHigh = {0, 1, 1}},
      {.n = 3, .in = {1, 28, 28}, .cin = 1, .cout = 6, .kernel = {1, 5, 5}, .padLow = {0, 2, 2}, .padHigh = {0, 2, 2}},
      {.n = 2, .in = {1, 1, 1000}, .cin = 3, .cout = 8, .kernel = {1, 1, 9}, .padLow = {0, 0, 4}, .padHigh = {0, 0, 4}},
      {.n = 1, .in = {1, 12, 12}, .cin = 130, .cout = 20, .kernel = {1, 3, 3}},
      {.n = 2, .in = {1, 9, 9}, .cin = 4, .cout = 6, .kernel = {1, 2, 2}, .stride = {1, 3, 3}},
      {.n = 2,
       .in = {4, 5, 6},
       .cin = 8,
       .cout = 12,
       .groups = 4,
       .kernel = {3, 3, 3},
       .stride = {1, 2, 2},
       .dilation = {2, 1, 2},
       .padLow = {2, 1, 2},
       .padHigh = {2, 1, 2}},
      {.n = 3, .in = {1, 40, 41}, .cin = 3, .cout = 9, .kernel = {1, 3, 3}, .padLow = {0, 1, 1}, .padHigh = {0, 1, 1}},
      {.n = 2,
       .in = {1, 60, 62},
       .cin = 4,
       .cout = 6,
       .groups = 2,
       .kernel = {1, 5, 5},
       .stride = {1, 1, 2},
       .padLow = {0, 2, 1},
       .padHigh = {0, 2, 2}},
      {.n = 2, .in = {1, 50, 49}, .cin = 6, .cout = 5, .kernel = {1, 1, 1}},
      {.n = 2,
       .in = {1, 48, 47},
       .cin = 40,
       .cout = 40,
       .groups = 40,
       .kernel = {1, 3, 3},
       .padLow = {0, 1, 1},
       .padHigh = {0, 1, 1}},
      // Groups of few channels: 2, 3, 4, 8; more outputs than inputs and the reverse; strides, dilations, three
      // dimensions, phases without taps, several images in a chunk.
      {.n = 2,
       .in = {1, 13, 17},
       .cin = 64,
       .cout = 64,
       .groups = 16,
       .kernel = {1, 3, 3},
       .padLow = {0, 1, 1},
       .padHigh = {0, 1, 1}},
      {.n = 1, .in = {1, 9, 7}, .cin = 22, .cout = 22, .groups = 11, .kernel = {1, 3, 2}, .stride = {1, 2, 1}},
      {.n = 2,
       .in = {1, 11, 15},
       .cin = 39,
       .cout = 39,
       .groups = 13,
       .kernel = {1, 3, 3},
       .dilation = {1, 2, 2},
       .padLow = {0, 2, 1},
       .padHigh = {0, 1, 2}},
      {.n = 1,
       .in = {1, 10, 29},
       .cin = 40,
       .cout = 40,
       .groups = 5,
       .kernel = {1, 3, 3},
       .stride = {1, 2, 3},
       .padLow = {0, 1, 1},
       .padHigh = {0, 1, 1}},
      {.n = 2, .in = {1, 12, 9}, .cin = 9, .cout = 27, .groups = 9, .kernel = {1, 3, 3}, .padLow = {0, 1, 1}},
      {.n = 1,
       .in = {1, 8, 31},
       .cin = 56,
       .cout = 14,
       .groups = 7,
       .kernel = {1, 2, 5},
       .padLow = {0, 0, 2},
       .padHigh = {0, 1, 2}},
      {.n = 1,
       .in = {4, 5, 6},
       .cin = 12,
       .cout = 24,
       .groups = 6,
       .kernel = {3, 2, 3},
       .stride = {2, 1, 2},
       .dilation = {1, 2, 1},
       .padLow = {1, 1, 0},
       .padHigh = {2, 0, 1}},
      {.n = 7, .in = {1, 3, 5}, .cin = 20, .cout = 20, .groups = 5, .kernel = {1, 1, 1}, .stride = {1, 2, 3}},
      {.n = 2, .in = {1, 1, 700}, .cin = 6, .cout = 6, .groups = 2, .kernel = {1, 1, 9}, .padLow = {0, 0, 4}},
      {.n = 0, .in = {1, 5, 5}, .cin = 4, .cout = 4, .groups = 2, .kernel = {1, 3, 3}},
      {.n = 1, .in = {1, 2, 2}, .cin = 4, .cout = 4, .groups = 2, .kernel = {1, 5, 5}},
      {.n = 1, .in = {1, 90, 91}, .cin = 24, .cout = 24, .groups = 6, .kernel = {1, 3, 3}, .padHigh = {0, 2, 2}},
      // Up to four output channels, forward and in the data gradient; groups of them; several dimensions.
      {.n = 2,
       .in = {1, 28, 27},
       .cin = 1,
       .cout = 32,
       .kernel = {1, 4, 4},
       .stride = {1, 2, 2},
       .padLow = {0, 1, 1},
       .padHigh = {0, 1, 1}},
      {.n = 1, .in = {1, 9, 80}, .cin = 40, .cout = 2, .kernel = {1, 3, 3}, .padLow = {0, 1, 1}, .padHigh = {0, 1, 1}},
      {.n = 2, .in = {1, 8, 11}, .cin = 74, .cout = 6, .groups = 2, .kernel = {1, 3, 2}, .dilation = {1, 1, 2}},
      {.n = 1, .in = {3, 5, 6}, .cin = 4, .cout = 17, .kernel = {2, 3, 3}, .padLow = {1, 1, 1}, .padHigh = {0, 1, 1}},
      // Phases that read the same windows, of several taps and of taps far apart; between them phases that read
      // other windows, or none; groups; pixels behind the last window.
      {.n = 2, .in = {1, 12, 34}, .cin = 70, .cout = 20, .kernel = {1, 4, 4}, .stride = {1, 2, 2}},
      {.n = 1, .in = {1, 9, 40}, .cin = 20, .cout = 6, .kernel = {1, 3, 4}, .stride = {1, 2, 2}, .dilation = {1, 3, 3}},
      {.n = 2, .in = {3, 7, 13}, .cin = 9, .cout = 8, .kernel = {1, 2, 3}, .stride = {2, 3, 4}},
      {.n = 1, .in = {1, 8, 11}, .cin = 66, .cout = 48, .groups = 2, .kernel = {1, 2, 3}, .stride = {1, 2, 3}},
  };
  // Up to four output channels of a pass again, as dot products where they are faster.
  for (size_t i = 0, count = all.size(); i < count; ++i)
    if (std::min(all[i].cin, all[i].cout) / all[i].groups <= cpu::kMostDotColumns) {
      all.push_back(all[i]);
      all.back().anySumOrder = true;
    }
  std::ranges::copy(winogradShapes(), std::back_inserter(all));
  return all;
}

// Without pads, and each place of the stride has one tap.
inline std::vector<ConvShape> shapesOfLongStrides() {
  return {
      {.n = 2, .in = {1, 10, 34}, .cin = 40, .cout = 24, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
      {.n = 1, .in = {1, 4, 60}, .cin = 130, .cout = 70, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
      {.n = 1, .in = {1, 1, 210}, .cin = 96, .cout = 17, .kernel = {1, 1, 3}, .stride = {1, 1, 3}},
      {.n = 3, .in = {1, 6, 4}, .cin = 3, .cout = 8, .kernel = {1, 3, 1}, .stride = {1, 3, 1}},
      {.n = 2, .in = {4, 6, 20}, .cin = 64, .cout = 32, .kernel = {2, 3, 2}, .stride = {2, 3, 2}},
      {.n = 1, .in = {1, 4, 16}, .cin = 33, .cout = 520, .kernel = {1, 4, 4}, .stride = {1, 4, 4}},
      {.n = 0, .in = {1, 4, 4}, .cin = 4, .cout = 4, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
  };
}

// Calls visit(x index, weight index in ONNX order, y index) for every product of the convolution.
template <typename Visit>
void forEachProduct(const ConvShape &s, Visit visit) {
  const Spatial out = s.out();
  const int64_t cin = s.cin / s.groups, cout = s.cout / s.groups;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t p = 0; p < volume(out); ++p)
      for (int64_t t = 0; t < s.taps(); ++t) {
        const Spatial o = {p / (out[1] * out[2]), p / out[2] % out[1], p % out[2]};
        const Spatial k = {t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1], t % s.kernel[2]};
        Spatial i;
        bool valid = true;
        for (int d = 0; d < 3; ++d) {
          i[d] = o[d] * s.stride[d] + k[d] * s.dilation[d] - s.padLow[d];
          valid = valid && i[d] >= 0 && i[d] < s.in[d];
        }
        if (!valid) continue;
        const int64_t xAt = ((n * s.in[0] + i[0]) * s.in[1] + i[1]) * s.in[2] + i[2];
        for (int64_t co = 0; co < s.cout; ++co)
          for (int64_t ci = 0; ci < cin; ++ci)
            visit(xAt * s.cin + co / cout * cin + ci, (co * cin + ci) * s.taps() + t,
                  (n * volume(out) + p) * s.cout + co);
      }
}

const int kThreads[] = {1, 2, 3, 8};

template <typename Plan, typename Run>
void runAll(const Plan &plan, int threads, Run run) {
  ThreadPool pool(threads);
  std::vector<Floats> scratch(static_cast<size_t>(threads), Floats(plan.scratchFloats(), NAN));
  pool.parallel(plan.tasks(), [&](int task, int thread) { run(task, scratch[static_cast<size_t>(thread)].data()); });
}

// The same for tasks in rounds, which share memory.
template <typename Plan, typename Run>
void runRounds(const Plan &plan, int threads, Run run) {
  ThreadPool pool(threads);
  std::vector<Floats> scratch(static_cast<size_t>(threads), Floats(plan.scratchFloats(), NAN));
  Floats shared(plan.sharedFloats(), NAN);
  std::vector<int> ends(plan.rounds().ends().begin(), plan.rounds().ends().end());
  if (ends.empty()) ends.push_back(plan.tasks());
  int first = 0;
  double share = 0;
  for (int end : ends) {
    pool.parallel(end - first, [&](int task, int thread) {
      run(first + task, scratch[static_cast<size_t>(thread)].data(), shared.data());
    });
    for (; first < end; ++first) share += plan.rounds().share(first);
  }
  EXPECT_NEAR(share, 1.0, 1e-9);
}

inline void expectNear(const Floats &actual, const Doubles &expected, int64_t terms, int shape) {
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 3e-6 * std::sqrt(static_cast<double>(terms) + 1))
        << "shape " << shape << " element " << i;
  }
}

struct Data {
  Floats x, w, dy, packed, transposed;
  explicit Data(const ConvShape &s)
      : x(randomFloats(s.n * volume(s.in) * s.cin, 1)),
        w(randomFloats(s.cout * (s.cin / s.groups) * s.taps(), 2)),
        dy(randomFloats(s.n * volume(s.out()) * s.cout, 3)),
        packed(packedConvWeights(s, w)),
        transposed(s.joinsGroups() ? packed : transpose(s, packed)) {}

  static Floats transpose(const ConvShape &s, const Floats &packed) {
    const ConvWeightTranspose plan(s);
    Floats transposed(static_cast<size_t>(plan.transposedFloats()), NAN);
    for (int task = 0; task < plan.tasks(); ++task) plan.run(task, packed.data(), transposed.data());
    return transposed;
  }
};

}  // namespace popart::test
