// Depthwise sums to the bit: one ascending chain of multiply-adds over taps, zeros beyond the border too, then the
// epilogue; for any kernel, stride, dilation and pads, in one to three dimensions, whatever the tasks. Weight gradients
// have the bits of sums that read copied strips.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../support/instruction_sets.hpp"
#include "../support/random_floats.hpp"
#include "backends/cpu/kernels/conv.hpp"
#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

using test::randomFloats;
using Floats = std::vector<float>;

ConvShape shapeOf(int64_t n, Spatial in, int64_t channels, Spatial kernel, Spatial stride, Spatial dilation,
                  Spatial low, Spatial high) {
  ConvShape s;
  s.n = n, s.in = in, s.cin = s.cout = s.groups = channels;
  s.kernel = kernel, s.stride = stride, s.dilation = dilation, s.padLow = low, s.padHigh = high;
  return s;
}

const std::vector<ConvShape> &shapes() {
  static const std::vector<ConvShape> kShapes = {
      shapeOf(2, {1, 7, 7}, 40, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}),
      shapeOf(1, {1, 9, 23}, 32, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}),
      shapeOf(1, {1, 12, 40}, 17, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, {0, 2, 2}),
      shapeOf(1, {1, 11, 13}, 3, {1, 5, 4}, {1, 2, 3}, {1, 2, 1}, {0, 3, 0}, {0, 1, 2}),
      shapeOf(1, {1, 6, 5}, 5, {1, 3, 3}, {1, 1, 1}, {1, 4, 3}, {0, 4, 3}, {0, 4, 3}),
      shapeOf(2, {1, 1, 201}, 48, {1, 1, 9}, {1, 1, 1}, {1, 1, 2}, {0, 0, 8}, {0, 0, 8}),
      shapeOf(1, {5, 4, 6}, 20, {3, 2, 3}, {2, 1, 2}, {1, 1, 1}, {1, 0, 1}, {1, 1, 1}),
      shapeOf(1, {1, 3, 3}, 16, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}),
      shapeOf(1, {1, 2, 2}, 8, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, {0, 2, 2}),
  };
  return kShapes;
}

// Weights (tap, channel) as panels.
Floats packed(const ConvShape &s, const Floats &weights) {
  Floats panels(static_cast<size_t>(packedSize(s.taps(), s.cout)));
  packPanels(weights.data(), s.cout, 1, s.taps(), s.cout, panels.data());
  return panels;
}

template <class F>
void forEachPlace(const Spatial &size, F &&f) {
  for (int64_t z = 0; z < size[0]; ++z)
    for (int64_t y = 0; y < size[1]; ++y)
      for (int64_t x = 0; x < size[2]; ++x) f(Spatial{z, y, x});
}
int64_t indexOf(const Spatial &size, const Spatial &at) { return (at[0] * size[1] + at[1]) * size[2] + at[2]; }
bool isIn(const Spatial &size, const Spatial &at) {
  for (size_t d = 0; d < 3; ++d)
    if (at[d] < 0 || at[d] >= size[d]) return false;
  return true;
}

// The chain of every output, written out.
Floats sumsOf(const ConvShape &s, const Floats &x, const Floats &weights) {
  const Spatial out = s.out();
  Floats y(static_cast<size_t>(s.n * volume(out) * s.cout));
  for (int64_t n = 0; n < s.n; ++n)
    forEachPlace(out, [&](const Spatial &o) {
      for (int64_t c = 0; c < s.cout; ++c) {
        float sum = 0;
        forEachPlace(s.kernel, [&](const Spatial &k) {
          Spatial at;
          for (size_t d = 0; d < 3; ++d) at[d] = o[d] * s.stride[d] + k[d] * s.dilation[d] - s.padLow[d];
          const float v = isIn(s.in, at) ? x[(n * volume(s.in) + indexOf(s.in, at)) * s.cin + c] : 0.0f;
          sum = test::multiplyAdd(v, weights[indexOf(s.kernel, k) * s.cout + c], sum);
        });
        y[(n * volume(out) + indexOf(out, o)) * s.cout + c] = sum;
      }
    });
  return y;
}

template <class Plan>
Floats run(const Plan &plan, const Floats &x, const Floats &weights, Floats y, const Epilogue &epilogue) {
  Floats scratch(plan.scratchFloats());
  double share = 0;
  for (int task = plan.tasks(); task-- > 0;) {
    plan.run(task, x.data(), weights.data(), y.data(), epilogue, scratch.data());
    share += plan.share(task);
  }
  EXPECT_NEAR(share, 1, 1e-9);
  return y;
}

TEST(ConvDepthwise, is_one_chain_over_taps_and_then_the_epilogue) {
  int number = 0;
  for (const ConvShape &s : shapes()) {
    ASSERT_TRUE(s.isDepthwise());
    const Floats x = randomFloats(s.n * volume(s.in) * s.cin, 1), weights = randomFloats(s.taps() * s.cout, 2),
                 bias = randomFloats(s.cout, 3), panels = packed(s, weights), sums = sumsOf(s, x, weights),
                 residual = randomFloats(static_cast<int64_t>(sums.size()), 4);
    for (const int threads : {1, 2, 7})
      for (const ElementOp op : {ElementOp::kCopy, ElementOp::kRelu, ElementOp::kClip, ElementOp::kSwish})
        for (const bool hasTerms : {false, true}) {
          Floats want = sums;
          for (size_t i = 0; i < want.size() && hasTerms; ++i)
            want[i] = (want[i] + bias[i % static_cast<size_t>(s.cout)]) + residual[i];
          Epilogue e;
          e.step = {op, {-0.25f, 0.75f}};
          const void *const operand = want.data();
          if (op != ElementOp::kCopy)
            elementFunction(op, 0)(&operand, want.data(), static_cast<int64_t>(want.size()), e.step.parameters.data());
          Floats y(sums.size(), NAN);
          if (hasTerms) y = residual;  // in its place
          e.bias = hasTerms ? bias.data() : nullptr;
          const ConvForward plan(s, threads);
          Floats scratch(plan.scratchFloats());
          e.residual = hasTerms ? y.data() : nullptr;
          for (int task = plan.tasks(); task-- > 0;)
            plan.run(task, x.data(), panels.data(), y.data(), e, scratch.data());
          ASSERT_EQ(y, want) << "shape " << number << ", " << threads << " threads, instruction "
                             << static_cast<int>(op);
        }
    ++number;
  }
}

// Blocks of every width, inside of the lines and across their borders, for taps that the code knows and others.
TEST(ConvDepthwise, is_that_chain_for_lines_of_any_length) {
  for (const int64_t taps : {3, 5, 7})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t dilation : {1, 2})
        for (int64_t length = 1; length <= 41; length += length < 18 ? 1 : 3) {
          const int64_t reach = dilation * (taps / 2);
          const ConvShape s = shapeOf(1, {1, 5, length}, 35, {1, taps, taps}, {1, stride, stride},
                                      {1, dilation, dilation}, {0, reach, reach}, {0, reach, reach});
          const Floats x = randomFloats(volume(s.in) * s.cin, 1), weights = randomFloats(s.taps() * s.cout, 2),
                       want = sumsOf(s, x, weights);
          ASSERT_EQ(run(ConvForward(s, 1), x, packed(s, weights), Floats(want.size(), NAN), {}), want)
              << taps << " taps, stride " << stride << ", dilation " << dilation << ", length " << length;
        }
}

// More rows of taps than a block has places for.
TEST(ConvDepthwise, is_that_chain_for_tall_kernels) {
  const ConvShape s = shapeOf(1, {1, 40, 3}, 18, {1, 37, 1}, {1, 1, 1}, {1, 1, 1}, {0, 18, 0}, {0, 18, 0});
  ASSERT_FALSE(DepthwiseProduct::fits(s));
  const Floats x = randomFloats(volume(s.in) * s.cin, 1), weights = randomFloats(s.taps() * s.cout, 2);
  EXPECT_EQ(run(ConvForward(s, 2), x, packed(s, weights), Floats(x.size(), NAN), {}), sumsOf(s, x, weights));
}

// dx[i] sums dy of the outputs that read i: one chain over taps from the last to the first, output zeros included.
TEST(ConvDepthwise, data_gradient_has_the_chain_of_the_reversed_taps) {
  int number = 0;
  for (const ConvShape &s : shapes()) {
    const Spatial out = s.out();
    const Floats dy = randomFloats(s.n * volume(out) * s.cout, 5), weights = randomFloats(s.taps() * s.cout, 6);
    Floats want(static_cast<size_t>(s.n * volume(s.in) * s.cin));
    for (int64_t n = 0; n < s.n; ++n)
      forEachPlace(s.in, [&](const Spatial &i) {
        for (int64_t c = 0; c < s.cin; ++c) {
          float sum = 0;
          forEachPlace(s.kernel, [&](const Spatial &reversed) {
            Spatial k, o;
            for (size_t d = 0; d < 3; ++d) {
              k[d] = s.kernel[d] - 1 - reversed[d];
              const int64_t position = i[d] + s.padLow[d] - k[d] * s.dilation[d];
              if (position % s.stride[d] != 0) return;
              o[d] = position / s.stride[d];
            }
            const float v = isIn(out, o) ? dy[(n * volume(out) + indexOf(out, o)) * s.cout + c] : 0.0f;
            sum = test::multiplyAdd(v, weights[indexOf(s.kernel, k) * s.cout + c], sum);
          });
          want[(n * volume(s.in) + indexOf(s.in, i)) * s.cin + c] = sum;
        }
      });
    for (const int threads : {1, 3})
      ASSERT_EQ(run(ConvDataGradient(s, threads), dy, packed(s, weights), Floats(want.size(), NAN), {}), want)
          << "shape " << number << ", " << threads << " threads";
    ++number;
  }
}

// What is no number, or infinite, stays where a window reads it.
TEST(ConvDepthwise, zeros_beyond_the_border_are_multiplied) {
  const ConvShape s = shapeOf(1, {1, 4, 4}, 16, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1});
  Floats weights = randomFloats(s.taps() * s.cout, 2);
  weights[0] = INFINITY;  // tap (0, 0), channel 0
  const Floats x = randomFloats(volume(s.in) * s.cin, 1);
  const Floats y = run(ConvForward(s, 1), x, packed(s, weights), Floats(x.size(), 0.0f), {});
  for (int64_t i = 0; i < 16; ++i) {
    const bool isBorder = i / 4 == 0 || i % 4 == 0;
    EXPECT_EQ(std::isnan(y[i * 16]), isBorder) << i;
    EXPECT_TRUE(std::isfinite(y[i * 16 + 1])) << i;
  }
}

// ---- weight gradients

// The gradient of the weights (tap, channel) as panels; every task of a round before those of the next one.
Floats weightGradient(const GroupedGradient &plan, const ConvShape &s, const Floats &x, const Floats &dy) {
  Floats scratch(plan.scratchFloats(), NAN), shared(plan.sharedFloats(), NAN),
      panels(static_cast<size_t>(packedSize(s.taps(), s.cout)), 0.0f);
  const Update store;
  double share = 0;
  for (int task = 0; task < plan.rounds().tasks(); ++task) {
    plan.run(task, x.data(), dy.data(), panels.data(), store, scratch.data(), shared.data());
    share += plan.rounds().share(task);
  }
  EXPECT_NEAR(share, 1, 1e-9);
  return panels;
}

WindowGradientShape gradientShape(const ConvShape &s) {
  WindowGradientShape shape;
  shape.window = {s.n, s.in, s.out(), s.stride, s.dilation, s.kernel, s.padLow, 1, s.cin};
  shape.groups = s.groups;
  return shape;
}

// Those of shapes(), and more: several leaves, ranges of panels, parts of large kernels, lines in pieces.
std::vector<ConvShape> gradientShapes() {
  std::vector<ConvShape> all = shapes();
  for (const int64_t channels : {20, 96, 200})
    for (const int64_t kernel : {3, 5, 7})
      for (const int64_t stride : {1, 2})
        all.push_back(shapeOf(3, {1, 15, 14}, channels, {1, kernel, kernel}, {1, stride, stride}, {1, 1, 1},
                              {0, kernel / 2, 1}, {0, 0, kernel / 2}));
  all.push_back(shapeOf(5, {1, 20, 19}, 48, {1, 3, 3}, {1, 1, 1}, {1, 2, 2}, {0, 2, 1}, {0, 3, 2}));
  all.push_back(shapeOf(1, {1, 2, 1100}, 33, {1, 2, 6}, {1, 1, 1}, {1, 1, 1}, {0, 0, 5}, {0, 1, 0}));
  all.push_back(shapeOf(2, {1, 4, 3}, 64, {1, 11, 13}, {1, 1, 1}, {1, 1, 1}, {0, 5, 6}, {0, 5, 6}));
  all.push_back(shapeOf(1, {1, 5, 9}, 16, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, -1, -2}, {0, 1, -1}));
  return all;
}

TEST(ConvDepthwise, weight_gradients_have_the_bits_of_strips_for_any_number_of_threads) {
  int number = 0, severalLeaves = 0;
  for (const ConvShape &s : gradientShapes()) {
    const Floats x = randomFloats(s.n * volume(s.in) * s.cin, 7), dy = randomFloats(s.n * volume(s.out()) * s.cout, 8);
    const GroupedGradient strips(gradientShape(s), 1, Windows::Reading::kStrip);
    const Floats want = weightGradient(strips, s, x, dy);
    severalLeaves += strips.sharedFloats() > 0;
    for (const int threads : {1, 2, 3, 4, 64})
      ASSERT_EQ(weightGradient(GroupedGradient(gradientShape(s), threads), s, x, dy), want)
          << "shape " << number << ", " << threads << " threads";
    ++number;
  }
  EXPECT_GT(severalLeaves, 3);
  EXPECT_LT(severalLeaves, number);
}

TEST(ConvDepthwise, weight_gradients_of_every_instruction_set_are_those_of_loops) {
  test::forAllInstructionSets([] {
    int number = 0;
    for (const ConvShape &s : gradientShapes()) {
      const Spatial out = s.out();
      const Floats x = randomFloats(s.n * volume(s.in) * s.cin, 9), dy = randomFloats(s.n * volume(out) * s.cout, 10);
      std::vector<double> want(static_cast<size_t>(s.taps() * s.cout), 0.0);
      for (int64_t n = 0; n < s.n; ++n)
        forEachPlace(out, [&](const Spatial &o) {
          forEachPlace(s.kernel, [&](const Spatial &k) {
            Spatial at;
            for (size_t d = 0; d < 3; ++d) at[d] = o[d] * s.stride[d] + k[d] * s.dilation[d] - s.padLow[d];
            if (!isIn(s.in, at)) return;
            for (int64_t c = 0; c < s.cout; ++c)
              want[indexOf(s.kernel, k) * s.cout + c] +=
                  static_cast<double>(x[(n * volume(s.in) + indexOf(s.in, at)) * s.cin + c]) *
                  dy[(n * volume(out) + indexOf(out, o)) * s.cout + c];
          });
        });
      const Floats panels = weightGradient(GroupedGradient(gradientShape(s), 2), s, x, dy);
      const int64_t width = panelWidth();
      for (int64_t tap = 0; tap < s.taps(); ++tap)
        for (int64_t c = 0; c < s.cout; ++c)
          ASSERT_NEAR(panels[(c / width * s.taps() + tap) * width + c % width], want[tap * s.cout + c],
                      1e-6 * static_cast<double>(s.n * volume(out)) + 1e-5)
              << "shape " << number << ", tap " << tap << ", channel " << c;
      ++number;
    }
  });
}

TEST(ConvDepthwise, weight_gradients_multiply_zeros_beyond_the_border) {
  const ConvShape s = shapeOf(1, {1, 6, 6}, 16, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1});
  const Floats x = randomFloats(volume(s.in) * s.cin, 1);
  Floats dy = randomFloats(volume(s.in) * s.cin, 2);
  dy[0] = INFINITY;  // place (0, 0), channel 0
  const Floats panels = weightGradient(GroupedGradient(gradientShape(s), 1), s, x, dy);
  for (int64_t tap = 0; tap < 9; ++tap) {
    EXPECT_EQ(std::isnan(panels[tap * panelWidth()]), tap / 3 == 0 || tap % 3 == 0) << tap;
    EXPECT_TRUE(std::isfinite(panels[tap * panelWidth() + 1])) << tap;
  }
}

}  // namespace
}  // namespace popart::cpu
