// Convolutions and their gradients against direct loops in double over odd sizes, strides, dilations, pads and groups;
// any number of threads, bit for bit.
#include "backends/cpu/kernels/conv.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../support/conv_weights.hpp"
#include "../support/halves.hpp"
#include "../support/random_floats.hpp"
#include "base/threads/thread_pool.hpp"

namespace popart::cpu {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using test::halved;
using test::Halves;
using test::integers;
using test::randomFloats;

std::vector<ConvShape> shapes() {
  return {
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
      // Phases that read the same windows, of several taps and of taps far apart; between them phases that read
      // other windows, or none; groups; pixels behind the last window.
      {.n = 2, .in = {1, 12, 34}, .cin = 70, .cout = 20, .kernel = {1, 4, 4}, .stride = {1, 2, 2}},
      {.n = 1, .in = {1, 9, 40}, .cin = 20, .cout = 6, .kernel = {1, 3, 4}, .stride = {1, 2, 2}, .dilation = {1, 3, 3}},
      {.n = 2, .in = {3, 7, 13}, .cin = 9, .cout = 8, .kernel = {1, 2, 3}, .stride = {2, 3, 4}},
      {.n = 1, .in = {1, 8, 11}, .cin = 66, .cout = 48, .groups = 2, .kernel = {1, 2, 3}, .stride = {1, 2, 3}},
  };
}

// Without pads, and each place of the stride has one tap.
std::vector<ConvShape> shapesOfLongStrides() {
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

void expectNear(const Floats &actual, const Doubles &expected, int64_t terms, int shape) {
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
        packed(test::packedConvWeights(s, w)),
        transposed(s.joinsGroups() ? packed : transpose(s, packed)) {}

  static Floats transpose(const ConvShape &s, const Floats &packed) {
    const ConvWeightTranspose plan(s);
    Floats transposed(static_cast<size_t>(plan.transposedFloats()), NAN);
    for (int task = 0; task < plan.tasks(); ++task) plan.run(task, packed.data(), transposed.data());
    return transposed;
  }
};

// Tasks are claimed in order, each by the first thread that is free.
double longestThread(const ConvForward &plan, int threads) {
  std::vector<double> ends(static_cast<size_t>(threads), 0.0);
  for (int task = 0; task < plan.tasks(); ++task) *std::ranges::min_element(ends) += plan.share(task);
  return *std::ranges::max_element(ends);
}

TEST(Conv, ThreadsFinishTogether) {
  for (const int64_t cout : {208, 224, 256, 288, 320, 384})
    for (const int64_t size : {14, 28})
      for (const int threads : {2, 3, 4, 8}) {
        const ConvForward plan({.n = 1,
                                .in = {1, size, size},
                                .cin = 144,
                                .cout = cout,
                                .kernel = {1, 3, 3},
                                .padLow = {0, 1, 1},
                                .padHigh = {0, 1, 1}},
                               threads);
        // Many threads have few tasks each: more would read the weights more often.
        EXPECT_LT(longestThread(plan, threads) * threads, threads == 2 ? 1.06 : 1.25)
            << cout << " channels of " << size << " lines on " << threads << " threads";
      }
}

TEST(Conv, forward_matches_loops_and_epilogue) {
  int index = 0;
  for (const ConvShape &s : shapes()) {
    const Data data(s);
    const Floats bias = randomFloats(s.cout, 4), residual = randomFloats(static_cast<int64_t>(data.dy.size()), 5);
    Doubles expected(data.dy.size(), 0.0);
    forEachProduct(s,
                   [&](int64_t x, int64_t w, int64_t y) { expected[y] += static_cast<double>(data.x[x]) * data.w[w]; });
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = std::max(0.0, expected[i] + bias[i % s.cout] + residual[i]);
    Epilogue epilogue;
    epilogue.bias = bias.data(), epilogue.residual = residual.data(), epilogue.step.op = ElementOp::kRelu;
    Floats first;
    for (int threads : kThreads) {
      Floats y(data.dy.size(), NAN);
      const ConvForward plan(s, threads);
      runAll(plan, threads, [&](int task, float *scratch) {
        plan.run(task, data.x.data(), data.packed.data(), y.data(), epilogue, scratch);
      });
      if (threads == 1) first = y;
      expectNear(y, expected, s.taps() * s.cin, index);
      ASSERT_EQ(y, first) << "shape " << index;
    }
    ++index;
  }
}

TEST(Conv, data_gradient_matches_loops) {
  int index = 0;
  for (const ConvShape &s : shapes()) {
    const Data data(s);
    Doubles expected(data.x.size(), 0.0);
    forEachProduct(
        s, [&](int64_t x, int64_t w, int64_t y) { expected[x] += static_cast<double>(data.dy[y]) * data.w[w]; });
    Floats first;
    for (int threads : kThreads) {
      Floats dx(data.x.size(), NAN);
      const ConvDataGradient plan(s, threads);
      runAll(plan, threads, [&](int task, float *scratch) {
        plan.run(task, data.dy.data(), data.transposed.data(), dx.data(), Epilogue(), scratch);
      });
      if (threads == 1) first = dx;
      expectNear(dx, expected, s.taps() * s.cout, index);
      ASSERT_EQ(dx, first) << "shape " << index;
    }
    ++index;
  }
}

// The data gradient without pads whose windows do not overlap, tap by tap: products of pixels and channels.
Floats dataGradientByTaps(const ConvShape &s, const Data &data) {
  Floats dx(data.x.size(), NAN);
  ConvShape one = s;
  one.in = s.out(), one.kernel = one.stride = {1, 1, 1};
  for (int64_t t = 0; t < s.taps(); ++t) {
    Floats w;
    for (size_t i = static_cast<size_t>(t); i < data.w.size(); i += static_cast<size_t>(s.taps()))
      w.push_back(data.w[i]);
    const Floats packed = test::packedConvWeights(one, w, test::Transposed::kYes);
    Floats ofTap(static_cast<size_t>(s.n * volume(one.in) * s.cin), NAN);
    const ConvDataGradient plan(one, 1);
    runAll(plan, 1, [&](int task, float *scratch) {
      plan.run(task, data.dy.data(), packed.data(), ofTap.data(), Epilogue(), scratch);
    });
    const Spatial tap = {t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1], t % s.kernel[2]};
    for (int64_t p = 0; p < s.n * volume(one.in); ++p) {
      int64_t at = p / volume(one.in), rest = p;
      Spatial place;
      for (size_t d : {2, 1, 0}) place[d] = rest % one.in[d], rest /= one.in[d];
      for (size_t d : {0, 1, 2}) at = at * s.in[d] + place[d] * s.stride[d] + tap[d];
      std::copy_n(ofTap.begin() + p * s.cin, s.cin, dx.begin() + at * s.cin);
    }
  }
  return dx;
}

TEST(Conv, data_gradient_of_a_stride_as_long_as_its_kernel_has_the_bits_of_products_by_tap) {
  int index = 0;
  for (const ConvShape &s : shapesOfLongStrides()) {
    const Data data(s);
    const Floats expected = dataGradientByTaps(s, data);
    for (int threads : kThreads) {
      Floats dx(data.x.size(), NAN);
      const ConvDataGradient plan(s, threads);
      double share = 0;
      for (int task = 0; task < plan.tasks(); ++task) share += plan.share(task);
      EXPECT_NEAR(share, plan.tasks() == 0 ? 0.0 : 1.0, 1e-9) << "shape " << index;
      runAll(plan, threads, [&](int task, float *scratch) {
        plan.run(task, data.dy.data(), data.transposed.data(), dx.data(), Epilogue(), scratch);
      });
      ASSERT_EQ(dx, expected) << "shape " << index << " threads " << threads;
    }
    ++index;
  }
}

TEST(Conv, data_gradient_has_the_epilogue_of_every_pixel) {
  int index = 0;
  std::vector<ConvShape> all = shapes();
  std::ranges::copy(shapesOfLongStrides(), std::back_inserter(all));
  for (const ConvShape &s : all) {
    const Data data(s);
    const Floats bias = randomFloats(s.cin, 6), residual = randomFloats(static_cast<int64_t>(data.x.size()), 7);
    const ConvDataGradient plan(s, 2);
    const auto run = [&](Floats &dx, const Epilogue &e) {
      runAll(plan, 2, [&](int task, float *scratch) {
        plan.run(task, data.dy.data(), data.transposed.data(), dx.data(), e, scratch);
      });
    };
    Floats plain(data.x.size(), NAN);
    run(plain, Epilogue());
    // Inside of register tiles, and behind them; the residual is overwritten.
    for (const ElementOp step : {ElementOp::kRelu, ElementOp::kAbs}) {
      Floats fused = residual, expected;
      Epilogue epilogue;
      epilogue.bias = bias.data(), epilogue.residual = fused.data(), epilogue.step.op = step;
      run(fused, epilogue);
      for (size_t i = 0; i < plain.size(); ++i) {
        const float sum = plain[i] + bias[i % static_cast<size_t>(s.cin)] + residual[i];
        expected.push_back(step == ElementOp::kRelu ? std::max(0.0f, sum) : std::fabs(sum));
      }
      ASSERT_EQ(fused, expected) << "shape " << index;
    }
    ++index;
  }
}

TEST(Conv, weight_gradient_matches_loops_and_updates_in_place) {
  int index = 0;
  for (const ConvShape &s : shapes()) {
    const Data data(s);
    Doubles expected(data.w.size(), 0.0);
    forEachProduct(
        s, [&](int64_t x, int64_t w, int64_t y) { expected[w] += static_cast<double>(data.x[x]) * data.dy[y]; });
    Floats first;
    for (int threads : kThreads) {
      const ConvWeightGradient plan(s, threads);
      Floats stored(data.packed.size(), 0.0f), updated = data.packed, separate = data.packed;
      const Update sgd{.kind = UpdateKind::kSgd, .rate = 0.5f, .decay = 0.9f};
      for (auto *target : {&stored, &updated}) {
        const Update update = target == &stored ? Update() : sgd;
        runRounds(plan, threads, [&](int task, float *scratch, float *shared) {
          plan.run(task, data.x.data(), data.dy.data(), target->data(), update, scratch, shared);
        });
      }
      const Floats dw = test::unpackedConvWeights(s, stored);
      if (threads == 1) first = dw;
      expectNear(dw, expected, s.n * volume(s.out()), index);
      ASSERT_EQ(dw, first) << "shape " << index;
      applyUpdate(sgd, stored.data(), 0, separate.data(), 0, 1, static_cast<int64_t>(separate.size()));
      ASSERT_EQ(updated, separate) << "shape " << index;
    }
    ++index;
  }
}

TEST(Conv, stored_weights_round_trip_and_turn_into_what_the_data_gradient_reads) {
  for (const ConvShape &s : shapes()) {
    const Data data(s);
    ASSERT_EQ(test::unpackedConvWeights(s, data.packed), data.w);
    if (s.joinsGroups()) continue;
    ASSERT_EQ(data.transposed, test::packedConvWeights(s, data.w, test::Transposed::kYes));
    ASSERT_EQ(test::unpackedConvWeights(s, data.transposed, test::Transposed::kYes), data.w);
  }
}

// ---- 16 bits: operands of small integers, whose sums are exact and rounded once

struct HalfData {
  Floats x, w, dy;
  Halves halfX, halfDy, packed, transposed;
  explicit HalfData(const ConvShape &s)
      : x(integers(s.n * volume(s.in) * s.cin, 1)),
        w(integers(s.cout * (s.cin / s.groups) * s.taps(), 2)),
        dy(integers(s.n * volume(s.out()) * s.cout, 3)),
        halfX(halved(s.type, x)),
        halfDy(halved(s.type, dy)),
        packed(halved(s.type, test::packedConvWeights(s, w))) {
    const ConvWeightTranspose plan(s);
    transposed.resize(static_cast<size_t>(plan.transposedFloats()));
    for (int task = 0; task < plan.tasks(); ++task) plan.run(task, packed.data(), transposed.data());
  }
};

// The shapes that have kernels for 16 bits, of both types.
std::vector<ConvShape> halfShapes() {
  std::vector<ConvShape> result;
  for (const DataType type : test::kHalfTypes)
    for (ConvShape s : shapes())
      if (!s.joinsGroups()) s.type = type, result.push_back(s);
  for (const DataType type : test::kHalfTypes)
    for (ConvShape s : shapesOfLongStrides()) s.type = type, result.push_back(s);
  return result;
}

Halves roundedHalves(DataType type, const Doubles &values) {
  return halved(type, Floats(values.begin(), values.end()));
}

TEST(HalfConv, weights_turn_into_what_the_data_gradient_reads) {
  for (const ConvShape &s : halfShapes()) {
    const HalfData data(s);
    ASSERT_EQ(data.transposed, halved(s.type, test::packedConvWeights(s, data.w, test::Transposed::kYes)));
  }
}

TEST(HalfConv, forward_rounds_once_and_then_every_step) {
  int index = 0;
  for (const ConvShape &s : halfShapes()) {
    const HalfData data(s);
    const Halves bias = halved(s.type, randomFloats(s.cout, 4));
    const Floats added = test::widened(s.type, bias);
    Doubles sums(data.dy.size(), 0.0), exact, stepwise;
    forEachProduct(s, [&](int64_t x, int64_t w, int64_t y) { sums[y] += static_cast<double>(data.x[x]) * data.w[w]; });
    for (size_t i = 0; i < sums.size(); ++i) {
      const float b = added[i % static_cast<size_t>(s.cout)];
      exact.push_back(static_cast<float>(sums[i]) + b);
      stepwise.push_back(
          std::max(0.0f, test::roundedTo(s.type, test::roundedTo(s.type, static_cast<float>(sums[i])) + b)));
    }
    for (int threads : kThreads)
      for (const bool isExact : {true, false}) {
        Epilogue epilogue;
        epilogue.type = s.type, epilogue.bias = bias.data(), epilogue.addsBiasExactly = isExact;
        if (!isExact) epilogue.step.op = ElementOp::kRelu;
        Halves y(sums.size(), 0x7fff);
        const ConvForward plan(s, threads);
        runAll(plan, threads, [&](int task, float *scratch) {
          plan.run(task, data.halfX.data(), data.packed.data(), y.data(), epilogue, scratch);
        });
        ASSERT_EQ(y, roundedHalves(s.type, isExact ? exact : stepwise)) << "shape " << index << " threads " << threads;
      }
    ++index;
  }
}

TEST(HalfConv, data_gradient_rounds_once) {
  int index = 0;
  for (const ConvShape &s : halfShapes()) {
    const HalfData data(s);
    Doubles expected(data.x.size(), 0.0);
    forEachProduct(
        s, [&](int64_t x, int64_t w, int64_t y) { expected[x] += static_cast<double>(data.dy[y]) * data.w[w]; });
    Epilogue store;
    store.type = s.type;
    for (int threads : kThreads) {
      Halves dx(data.x.size(), 0x7fff);
      const ConvDataGradient plan(s, threads);
      runAll(plan, threads, [&](int task, float *scratch) {
        plan.run(task, data.halfDy.data(), data.transposed.data(), dx.data(), store, scratch);
      });
      ASSERT_EQ(dx, roundedHalves(s.type, expected)) << "shape " << index << " threads " << threads;
    }
    ++index;
  }
}

TEST(HalfConv, weight_gradient_rounds_once) {
  int index = 0;
  for (const ConvShape &s : halfShapes()) {
    const HalfData data(s);
    Doubles expected(data.w.size(), 0.0);
    forEachProduct(
        s, [&](int64_t x, int64_t w, int64_t y) { expected[w] += static_cast<double>(data.x[x]) * data.dy[y]; });
    const Halves packed = halved(s.type, test::packedConvWeights(s, Floats(expected.begin(), expected.end())));
    for (int threads : kThreads) {
      const ConvWeightGradient plan(s, threads);
      Halves stored(packed.size(), 0x7fff);
      auto *base = reinterpret_cast<float *>(stored.data());
      const Update update{.base = base, .type = s.type};
      runRounds(plan, threads, [&](int task, float *scratch, float *shared) {
        plan.run(task, data.halfX.data(), data.halfDy.data(), base, update, scratch, shared);
      });
      ASSERT_EQ(stored, packed) << "shape " << index << " threads " << threads;
    }
    ++index;
  }
}

}  // namespace
}  // namespace popart::cpu
