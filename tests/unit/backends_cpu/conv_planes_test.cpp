// Convolutions of planes (one input channel in a group, plain memory) against direct loops in double and against the
// kernels for channels last, whose bits they have; with epilogues, and any number of tasks.
#include "backends/cpu/kernels/conv_planes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../support/conv_weights.hpp"
#include "../support/instruction_sets.hpp"
#include "../support/random_floats.hpp"
#include "backends/cpu/kernels/conv.hpp"

namespace popart::cpu {
namespace {

using Floats = std::vector<float>;
using test::randomFloats;

ConvShape square(int64_t n, Spatial in, int64_t cin, int64_t perGroup, Spatial kernel, Spatial pads = {0, 0, 0},
                 Spatial stride = {1, 1, 1}, Spatial dilation = {1, 1, 1}) {
  return {.n = n,
          .in = in,
          .cin = cin,
          .cout = cin * perGroup,
          .groups = cin,
          .kernel = kernel,
          .stride = stride,
          .dilation = dilation,
          .padLow = pads,
          .padHigh = pads};
}

// Kernels of three, five, seven and other numbers of rows; strides of rows and columns; every number of rows behind the
// last whole tile; rows of parts of a vector, of one, two and more; planes of several pieces; one to forty outputs of a
// channel, one and three dimensions; windows that lie outside the input.
std::vector<ConvShape> shapes() {
  std::vector<ConvShape> all = {square(2, {1, 14, 14}, 5, 1, {1, 3, 3}, {0, 1, 1}),
                                square(1, {1, 28, 28}, 35, 1, {1, 3, 3}, {0, 1, 1}),
                                square(1, {1, 150, 70}, 3, 1, {1, 3, 3}, {0, 1, 1}),
                                square(1, {1, 56, 56}, 3, 2, {1, 7, 7}, {0, 3, 3}),
                                square(1, {1, 27, 33}, 3, 1, {1, 5, 5}, {0, 2, 2}, {1, 2, 2}),
                                square(2, {1, 31, 70}, 2, 3, {1, 3, 3}, {0, 1, 1}, {1, 2, 2}),
                                square(1, {1, 31, 70}, 2, 1, {1, 7, 7}, {0, 3, 3}, {1, 2, 3}),
                                square(1, {1, 20, 41}, 4, 1, {1, 3, 5}, {0, 0, 3}, {1, 1, 4}),
                                square(1, {1, 21, 41}, 4, 1, {1, 4, 2}, {0, 2, 1}, {1, 3, 5}),
                                square(1, {1, 24, 30}, 4, 1, {1, 3, 3}, {0, 2, 3}, {1, 1, 1}, {1, 2, 3}),
                                square(1, {1, 24, 30}, 4, 1, {1, 3, 3}, {0, 2, 3}, {1, 1, 2}, {1, 2, 3}),
                                square(2, {1, 1, 700}, 6, 1, {1, 1, 9}, {0, 0, 4}),
                                square(1, {1, 1, 9000}, 2, 1, {1, 1, 3}, {0, 0, 1}, {1, 1, 2}),
                                square(2, {4, 9, 11}, 3, 2, {3, 3, 3}, {1, 1, 1}),
                                square(1, {5, 9, 11}, 3, 1, {2, 5, 2}, {1, 2, 0}, {2, 2, 1}, {2, 1, 3}),
                                square(1, {1, 6, 6}, 3, 40, {1, 3, 3}, {0, 1, 1}),
                                square(1, {1, 6, 6}, 33, 7, {1, 1, 1}),
                                square(1, {1, 2, 2}, 4, 1, {1, 5, 5}),
                                square(1, {1, 3, 3}, 2, 1, {1, 2, 2}, {0, 4, 4}),
                                square(0, {1, 5, 5}, 2, 1, {1, 3, 3})};
  for (int64_t rows = 3; rows < 12; ++rows) all.push_back(square(1, {1, rows, 17}, 2, 1, {1, 3, 3}));
  return all;
}

// (n, channels, pixels) to (n, pixels, channels), or back.
Floats turned(const Floats &from, int64_t n, int64_t rows, int64_t columns) {
  Floats to(from.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        to[static_cast<size_t>((i * columns + c) * rows + r)] = from[static_cast<size_t>((i * rows + r) * columns + c)];
  return to;
}

// f(element of x, of w, of y) for every product, all in C order.
template <class F>
void forProducts(const ConvShape &s, F &&f) {
  const Spatial out = s.out();
  for (int64_t plane = 0; plane < s.n * s.cout; ++plane)
    for (int64_t p = 0; p < volume(out); ++p)
      for (int64_t t = 0; t < s.taps(); ++t) {
        const Spatial o = {p / (out[1] * out[2]), p / out[2] % out[1], p % out[2]};
        const Spatial k = {t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1], t % s.kernel[2]};
        int64_t at = plane / s.cout * s.cin + plane % s.cout / (s.cout / s.cin);
        bool isInside = true;
        for (size_t d = 0; d < 3; ++d) {
          const int64_t i = o[d] * s.stride[d] + k[d] * s.dilation[d] - s.padLow[d];
          isInside = isInside && i >= 0 && i < s.in[d];
          at = at * s.in[d] + i;
        }
        if (isInside)
          f(static_cast<size_t>(at), static_cast<size_t>(plane % s.cout * s.taps() + t),
            static_cast<size_t>(plane * volume(out) + p));
      }
}

void expectNear(const Floats &got, const std::vector<double> &expected, int64_t terms, int shape) {
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 3e-6 * std::sqrt(static_cast<double>(terms) + 1))
        << "shape " << shape << " element " << i;
}

// Tasks from the last to the first: none depends on another.
Floats run(const PlaneConv &plan, const Floats &x, const Floats &packed, const Epilogue &epilogue, Floats y) {
  Floats scratch(plan.scratchFloats(), NAN);
  double share = 0;
  for (int task = plan.tasks(); task-- > 0; share += plan.share(task))
    plan.run(task, x.data(), packed.data(), y.data(), epilogue, scratch.data());
  EXPECT_TRUE(y.empty() || std::fabs(share - 1.0) < 1e-9) << share;
  return y;
}

TEST(ConvPlanes, sums_match_loops_and_have_the_bits_of_channels_last) {
  int index = 0;
  for (const ConvShape &s : shapes()) {
    const int64_t inputs = volume(s.in), outputs = volume(s.out());
    const Floats x = randomFloats(s.n * s.cin * inputs, 1), w = randomFloats(s.cout * s.taps(), 2),
                 packed = test::packedConvWeights(s, w), bias = randomFloats(s.cout, 3);
    Epilogue epilogue;
    epilogue.bias = bias.data(), epilogue.addsBiasExactly = true;
    const Floats y = run(PlaneConv(s), x, packed, epilogue, Floats(static_cast<size_t>(s.n * s.cout * outputs), NAN));
    std::vector<double> expected;
    for (size_t i = 0; i < y.size(); ++i)
      expected.push_back(bias[i / static_cast<size_t>(outputs) % static_cast<size_t>(s.cout)]);
    forProducts(s, [&](size_t i, size_t j, size_t o) { expected[o] += static_cast<double>(x[i]) * w[j]; });
    expectNear(y, expected, s.taps(), index);
    const ConvForward last(s, 2);
    const Floats xLast = turned(x, s.n, s.cin, inputs);
    Floats yLast(y.size()), scratch(last.scratchFloats());
    for (int task = 0; task < last.tasks(); ++task)
      last.run(task, xLast.data(), packed.data(), yLast.data(), epilogue, scratch.data());
    ASSERT_EQ(y, turned(yLast, s.n, outputs, s.cout)) << "shape " << index;
    ++index;
  }
}

TEST(ConvPlanes, epilogues_are_those_of_separate_steps) {
  for (const ConvShape &s : {shapes()[1], shapes()[5]}) {
    const Floats x = randomFloats(s.n * s.cin * volume(s.in), 1),
                 packed = test::packedConvWeights(s, randomFloats(s.cout * s.taps(), 2)),
                 bias = randomFloats(s.cout, 3);
    const int64_t pixels = volume(s.out());
    const auto count = static_cast<size_t>(s.n * s.cout * pixels);
    const Floats sums = run(PlaneConv(s), x, packed, Epilogue(), Floats(count, NAN)),
                 residual = randomFloats(static_cast<int64_t>(count), 4);
    Floats before(count);
    Epilogue epilogue;
    epilogue.alpha = 0.7f, epilogue.bias = bias.data(), epilogue.preActivation = before.data();
    epilogue.step.op = ElementOp::kRelu;
    Floats y = residual;  // the residual is in the memory of the result
    const PlaneConv plan(s);
    Floats scratch(plan.scratchFloats(), NAN);
    epilogue.residual = y.data();
    for (int task = 0; task < plan.tasks(); ++task)
      plan.run(task, x.data(), packed.data(), y.data(), epilogue, scratch.data());
    for (size_t i = 0; i < count; ++i) {
      const float scaled = 0.7f * sums[i];
      const float biased = scaled + bias[i / static_cast<size_t>(pixels) % static_cast<size_t>(s.cout)];
      ASSERT_EQ(before[i], biased + residual[i]) << i;
      ASSERT_EQ(y[i], std::max(0.0f, before[i])) << i;
    }
  }
}

TEST(ConvPlanes, data_gradients_match_loops_and_have_the_bits_of_channels_last) {
  int index = 0;
  for (const ConvShape &s : shapes()) {
    ++index;
    if (!PlaneConv::hasDataGradient(s)) continue;
    const int64_t inputs = volume(s.in), outputs = volume(s.out());
    const Floats dy = randomFloats(s.n * s.cout * outputs, 1), w = randomFloats(s.cout * s.taps(), 2),
                 packed = test::packedConvWeights(s, w);
    const auto count = static_cast<size_t>(s.n * s.cin * inputs);
    const Floats dx = run(PlaneConv::dataGradient(s), dy, packed, Epilogue(), Floats(count, NAN));
    std::vector<double> expected(count, 0.0);
    forProducts(s, [&](size_t i, size_t j, size_t o) { expected[i] += static_cast<double>(dy[o]) * w[j]; });
    expectNear(dx, expected, s.taps(), index - 1);
    const ConvDataGradient last(s, 2);
    const Floats dyLast = turned(dy, s.n, s.cout, outputs);
    Floats dxLast(count), scratch(last.scratchFloats());
    for (int task = 0; task < last.tasks(); ++task)
      last.run(task, dyLast.data(), packed.data(), dxLast.data(), Epilogue(), scratch.data());
    ASSERT_EQ(dx, turned(dxLast, s.n, inputs, s.cin)) << "shape " << index - 1;
  }
}

// The packed weights after the update.
Floats weightGradient(const ConvShape &s, const Floats &x, const Floats &dy, const Update &update, Floats weights) {
  const PlaneWeightGradient plan(s);
  Floats scratch(plan.scratchFloats(), NAN), shared(plan.sharedFloats(), NAN);
  for (int task = 0; task < plan.tasks(); ++task)
    plan.run(task, x.data(), dy.data(), weights.data(), update, scratch.data(), shared.data());
  return weights;
}

TEST(ConvPlanes, weight_gradients_match_loops_and_update_in_place) {
  std::vector<ConvShape> all = shapes();
  all.push_back(square(9, {1, 40, 41}, 35, 1, {1, 3, 3}, {0, 1, 1}));  // several leaves
  int index = 0;
  for (const ConvShape &s : all) {
    ++index;
    if (!s.isDepthwise()) continue;
    const Floats x = randomFloats(s.n * s.cin * volume(s.in), 1), dy = randomFloats(s.n * s.cout * volume(s.out()), 2),
                 packed = test::packedConvWeights(s, randomFloats(s.cout * s.taps(), 3));
    std::vector<double> expected(static_cast<size_t>(s.cout * s.taps()), 0.0);
    forProducts(s, [&](size_t i, size_t j, size_t o) { expected[j] += static_cast<double>(x[i]) * dy[o]; });
    const Update descent{.kind = UpdateKind::kSgd, .rate = 0.5f, .decay = 0.9f};
    const Floats stored = weightGradient(s, x, dy, Update(), Floats(packed.size(), 0.0f)),
                 updated = weightGradient(s, x, dy, descent, packed);
    Floats separate = packed;
    expectNear(test::unpackedConvWeights(s, stored), expected, s.n * volume(s.out()), index - 1);
    applyUpdate(descent, stored.data(), 0, separate.data(), 0, 1, static_cast<int64_t>(separate.size()));
    ASSERT_EQ(updated, separate) << "shape " << index - 1;
  }
}

TEST(ConvPlanes, every_instruction_set_gives_these_sums) {
  test::forAllInstructionSets([] {
    int index = 0;
    for (const ConvShape &s : shapes()) {
      const Floats x = randomFloats(s.n * s.cin * volume(s.in), 1), w = randomFloats(s.cout * s.taps(), 2),
                   dy = randomFloats(s.n * s.cout * volume(s.out()), 3), packed = test::packedConvWeights(s, w);
      std::vector<double> y(dy.size(), 0.0), dx(x.size(), 0.0), dw(w.size(), 0.0);
      forProducts(s, [&](size_t i, size_t j, size_t o) {
        y[o] += static_cast<double>(x[i]) * w[j];
        dx[i] += static_cast<double>(dy[o]) * w[j];
        dw[j] += static_cast<double>(dy[o]) * x[i];
      });
      expectNear(run(PlaneConv(s), x, packed, Epilogue(), Floats(y.size(), NAN)), y, s.taps(), index);
      if (PlaneConv::hasDataGradient(s))
        expectNear(run(PlaneConv::dataGradient(s), dy, packed, Epilogue(), Floats(x.size(), NAN)), dx, s.taps(), index);
      if (s.isDepthwise())
        expectNear(test::unpackedConvWeights(s, weightGradient(s, x, dy, Update(), packed)), dw, s.n * volume(s.out()),
                   index);
      ++index;
    }
  });
}

// What a model may ask for, too.
TEST(ConvPlanes, what_takes_much_memory_or_overflows_is_left_to_others) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const ConvShape &s : shapes()) EXPECT_TRUE(PlanePlan::fits(s));
  for (const size_t d : {1, 2}) {
    ConvShape steps = square(1, {1, 9, 9}, 2, 1, {1, 3, 3}), spreads = square(1, {1, 9, 9}, 2, 1, {1, 3, 3});
    steps.stride[d] = kHuge;
    spreads.dilation[d] = kHuge / 4, spreads.padLow[d] = kHuge / 2;
    EXPECT_FALSE(PlanePlan::fits(steps));
    EXPECT_FALSE(PlanePlan::fits(spreads));
    EXPECT_FALSE(PlaneConv::hasDataGradient(steps));
    EXPECT_FALSE(PlaneConv::hasDataGradient(spreads));
  }
  EXPECT_FALSE(PlanePlan::fits(square(1, {1, 1, 1 << 20}, 2, 1, {1, 1, 3})));
  EXPECT_TRUE(PlanePlan::fits(square(1, {1, 4096, 4096}, 2, 1, {1, 7, 7})));
}

}  // namespace
}  // namespace popart::cpu
