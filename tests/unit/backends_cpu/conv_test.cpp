// Convolutions and their gradients against direct loops in double over odd sizes, strides, dilations, pads and groups;
// any number of threads, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../support/conv_cases.hpp"
#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

using test::Data;
using test::Doubles;
using test::expectNear;
using test::Floats;
using test::forEachProduct;
using test::kThreads;
using test::randomFloats;
using test::runAll;
using test::runRounds;
using test::shapes;
using test::shapesOfLongStrides;

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
        // Many threads have few tasks each: more would read the weights more often. A plan ignores gains of 5 % of the
        // elapsed time; vectors of four and eight floats come nearest to that.
        const double most = threads > 2 ? 1.25 : panelWidth() < 32 ? 1.08 : 1.06;
        EXPECT_LT(longestThread(plan, threads) * threads, most)
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

// The first output channels have the same sums, however many there are.
TEST(Conv, a_few_output_channels_are_dot_products_only_if_any_order_is_allowed) {
  const ConvShape many = {
      .n = 2, .in = {1, 9, 14}, .cin = 24, .cout = 48, .kernel = {1, 3, 3}, .padLow = {0, 1, 1}, .padHigh = {0, 1, 1}};
  const Data data(many);
  const auto channelsOf = [&](ConvShape s, int64_t channels) {
    s.cout = channels;
    const Floats weights(data.w.begin(), data.w.begin() + channels * s.cin * s.taps()),
        packed = test::packedConvWeights(s, weights);
    Floats y(static_cast<size_t>(s.n * volume(s.out()) * channels), NAN);
    const ConvForward plan(s, 2);
    runAll(plan, 2, [&](int task, float *scratch) {
      plan.run(task, data.x.data(), packed.data(), y.data(), Epilogue(), scratch);
    });
    Floats first;
    for (size_t i = 0; i < y.size(); i += static_cast<size_t>(channels)) first.push_back(y[i]);
    return first;
  };
  const Floats ofMany = channelsOf(many, 48);
  EXPECT_EQ(channelsOf(many, 2), ofMany);
  ConvShape any = many;
  any.anySumOrder = true;
  EXPECT_NE(channelsOf(any, 2), ofMany);
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
  std::vector<ConvShape> all = shapes();
  // The sums of a task exceed half of a second level cache of 1 MiB. There are two chunks of places.
  all.push_back({.n = 1, .in = {1, 1, 300}, .cin = 4200, .cout = 200, .kernel = {1, 1, 1}});
  int index = 0;
  for (const ConvShape &s : all) {
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

}  // namespace
}  // namespace popart::cpu
