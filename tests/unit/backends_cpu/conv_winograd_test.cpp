// Winograd's algorithm: which shapes it computes, and what it promises besides the sums, which conv_test.cpp compares
// with direct loops.
#include "backends/cpu/kernels/conv_winograd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "../support/conv_cases.hpp"
#include "../support/instruction_sets.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

using test::Data;
using test::Doubles;
using test::Floats;
using test::forAllInstructionSets;
using test::forEachProduct;
using test::randomFloats;
using test::runAll;
using test::winogradShapes;

Floats forward(const ConvShape &s, const Floats &x, const Floats &packed, int threads = 2) {
  Floats y(static_cast<size_t>(s.n * volume(s.out()) * s.cout), NAN);
  const ConvForward plan(s, threads);
  runAll(plan, threads,
         [&](int task, float *scratch) { plan.run(task, x.data(), packed.data(), y.data(), Epilogue(), scratch); });
  return y;
}

double largestError(const Floats &y, const Doubles &expected) {
  double largest = 0;
  for (size_t i = 0; i < y.size(); ++i) largest = std::max(largest, std::fabs(y[i] - expected[i]));
  return largest;
}

const ConvShape kImage = {.n = 1,
                          .in = {1, 14, 14},
                          .cin = 64,
                          .cout = 48,
                          .kernel = {1, 3, 3},
                          .padLow = {0, 1, 1},
                          .padHigh = {0, 1, 1},
                          .anySumOrder = true};

TEST(ConvWinograd, is_used_for_the_shapes_of_the_other_tests) {
  for (const ConvShape &s : winogradShapes()) {
    EXPECT_TRUE(ConvForward(s, 2).usesWinograd());
    EXPECT_TRUE(ConvDataGradient(s, 2).usesWinograd());
    EXPECT_TRUE(ConvWeightGradient(s, 2).usesWinograd());
    ConvShape direct = s;
    direct.anySumOrder = false;
    EXPECT_FALSE(ConvForward(direct, 2).usesWinograd());
    EXPECT_FALSE(ConvDataGradient(direct, 2).usesWinograd());
    EXPECT_FALSE(ConvWeightGradient(direct, 2).usesWinograd());
  }
}

TEST(ConvWinograd, does_not_depend_on_threads_or_the_number_of_images) {
  ASSERT_TRUE(ConvForward(kImage, 1).usesWinograd());
  for (const int64_t images : {0, 1, 2, 64})
    for (const int threads : {1, 2, 64}) {
      ConvShape s = kImage;
      s.n = images;
      EXPECT_TRUE(ConvForward(s, threads).usesWinograd());
    }
}

TEST(ConvWinograd, is_not_used_where_it_gains_nothing_or_does_not_apply) {
  const auto uses = [](auto &&change) {
    ConvShape s = kImage;
    change(s);
    return ConvForward(s, 2).usesWinograd();
  };
  EXPECT_TRUE(uses([](ConvShape &) {}));
  EXPECT_FALSE(uses([](ConvShape &s) { s.cin = 12; }));
  EXPECT_FALSE(uses([](ConvShape &s) { s.cin = s.cout = 24; }));
  EXPECT_FALSE(uses([](ConvShape &s) { s.in = {1, 4, 4}; }));
  EXPECT_FALSE(uses([](ConvShape &s) { s.in = {1, 1, 64}; }));  // half of each tile exceeds the image
  EXPECT_FALSE(uses([](ConvShape &s) { s.stride = {1, 1, 2}; }));
  EXPECT_FALSE(uses([](ConvShape &s) { s.dilation = {1, 2, 1}; }));
  EXPECT_FALSE(uses([](ConvShape &s) { s.kernel = {1, 3, 5}; }));
  EXPECT_FALSE(uses([](ConvShape &s) { s.in[0] = s.kernel[0] = 3; }));
  EXPECT_FALSE(uses([](ConvShape &s) { s.type = DataType::FLOAT16; }));
}

// A direct sum is a chain of nine times as many additions, so Winograd's has the smaller error.
TEST(ConvWinograd, error_is_not_larger_than_that_of_direct_sums) {
  for (ConvShape s : winogradShapes()) {
    if (s.n == 0) continue;
    const Data data(s);
    Doubles expected(data.dy.size(), 0.0);
    forEachProduct(s,
                   [&](int64_t x, int64_t w, int64_t y) { expected[y] += static_cast<double>(data.x[x]) * data.w[w]; });
    const double error = largestError(forward(s, data.x, data.packed), expected);
    s.anySumOrder = false;
    EXPECT_LE(error, 1.5 * largestError(forward(s, data.x, data.packed), expected));
  }
}

TEST(ConvWinograd, error_of_weight_gradients_is_not_larger_than_that_of_direct_sums) {
  for (ConvShape s : winogradShapes()) {
    const Data data(s);
    Doubles expected(data.w.size(), 0.0);
    forEachProduct(
        s, [&](int64_t x, int64_t w, int64_t y) { expected[w] += static_cast<double>(data.x[x]) * data.dy[y]; });
    const auto error = [&] {
      Floats stored(data.packed.size(), NAN);
      const ConvWeightGradient plan(s, 1);
      test::runRounds(plan, 1, [&](int task, float *scratch, float *shared) {
        plan.run(task, data.x.data(), data.dy.data(), stored.data(), Update(), scratch, shared);
      });
      return largestError(test::unpackedConvWeights(s, stored), expected);
    };
    const double fast = error();
    s.anySumOrder = false;
    EXPECT_LE(fast, 2 * error());  // the numbers of leaves differ
  }
}

TEST(ConvWinograd, images_have_the_same_bits_alone_and_among_others) {
  for (const ConvShape &s : winogradShapes()) {
    const Data data(s);
    const Floats y = forward(s, data.x, data.packed);
    ConvShape one = s;
    one.n = 1;
    for (int64_t n = 0; n < s.n; ++n) {
      const auto part = [&](const Floats &all) {
        const auto size = static_cast<std::ptrdiff_t>(all.size()) / s.n;
        return Floats(all.begin() + n * size, all.begin() + (n + 1) * size);
      };
      ASSERT_EQ(forward(one, part(data.x), data.packed, 3), part(y)) << "image " << n;
    }
  }
}

TEST(ConvWinograd, every_instruction_set_transforms_with_the_same_bits) {
  for (const ConvShape &s : winogradShapes()) {
    const Data data(s);
    const Floats expected = forward(s, data.x, data.packed);
    forAllInstructionSets([&] { ASSERT_EQ(forward(s, data.x, data.packed), expected); });
  }
}

// As many channels and panels as the second level cache requires for halves; the weights of a panel alone stay in it.
TEST(ConvWinograd, halves_of_the_weights_give_the_bits_of_the_whole) {
  const int64_t width = panelWidth(), channels = secondLevelCacheBytes() / (128 * width), panels = 5;
  WindowProductShape all;
  all.window.in = all.window.out = all.size = {1, 16, 18};
  all.window.taps = {1, 3, 3}, all.window.low = {0, 1, 1};
  all.window.channels = all.window.pixelStride = channels;
  all.columns = panels * width, all.weightRows = 9 * channels;
  for (int64_t tap = 0; tap < 9; ++tap) all.tapRows.push_back(tap * channels);
  WindowProductShape one = all;
  one.columns = width;
  const WinogradProduct halves(all, 1), whole(one, 1);
  ASSERT_TRUE(halves.halvesWeights());
  ASSERT_FALSE(whole.halvesWeights());
  const int64_t pixels = volume(all.size), panelFloats = all.weightRows * width;
  const Floats x = randomFloats(pixels * channels, 1), weights = randomFloats(panels * panelFloats, 2);
  const auto run = [&](const WinogradProduct &product, const float *w, int64_t columns) {
    Floats y(static_cast<size_t>(pixels * columns), NAN), scratch(product.scratchFloats() + 16);
    for (int task = 0; task < product.tasks(); ++task)
      product.run(task, x.data(), w, y.data(), Epilogue(), scratch.data());
    return y;
  };
  const Floats y = run(halves, weights.data(), all.columns);
  for (int64_t p = 0; p < panels; ++p) {
    const Floats expected = run(whole, weights.data() + p * panelFloats, width);
    for (int64_t i = 0; i < pixels; ++i)
      ASSERT_TRUE(std::equal(expected.begin() + i * width, expected.begin() + (i + 1) * width,
                             y.begin() + i * all.columns + p * width))
          << "panel " << p << ", pixel " << i;
  }
}

// Pixels and channels of images that have slices of other pixels' channels between them.
TEST(ConvWinograd, reads_and_writes_slices_of_channels) {
  ConvShape s = kImage;
  const Data data(s);
  const Floats expected = forward(s, data.x, data.packed);
  s.xStride = s.cin + 5, s.yStride = s.cout + 3;
  const int64_t pixels = volume(s.in);
  Floats x(static_cast<size_t>(pixels * s.xStride), NAN), y(static_cast<size_t>(pixels * s.yStride), -1.0f);
  for (int64_t p = 0; p < pixels; ++p) std::copy_n(data.x.begin() + p * s.cin, s.cin, x.begin() + p * s.xStride);
  const ConvForward plan(s, 1);
  ASSERT_TRUE(plan.usesWinograd());
  runAll(plan, 1, [&](int task, float *scratch) {
    plan.run(task, x.data(), data.packed.data(), y.data(), Epilogue(), scratch);
  });
  for (int64_t i = 0; i < pixels * s.yStride; ++i) {
    const int64_t pixel = i / s.yStride, channel = i % s.yStride;
    const float wanted = channel < s.cout ? expected[static_cast<size_t>(pixel * s.cout + channel)] : -1.0f;
    ASSERT_EQ(y[static_cast<size_t>(i)], wanted) << "element " << i;
  }
}

// The inputs of a tile are four by four, and those of neighbouring tiles overlap.
TEST(ConvWinograd, a_NaN_reaches_the_tiles_that_read_it_only) {
  const Data data(kImage);
  Floats x = data.x;
  const int64_t line = 5, column = 8;
  x[static_cast<size_t>((line * 14 + column) * kImage.cin + 3)] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = forward(kImage, x, data.packed), clean = forward(kImage, data.x, data.packed);
  for (int64_t l = 0; l < 14; ++l)
    for (int64_t c = 0; c < 14; ++c)
      for (int64_t channel = 0; channel < kImage.cout; ++channel) {
        const auto at = static_cast<size_t>((l * 14 + c) * kImage.cout + channel);
        const bool readsIt = std::abs(l - line) <= 1 && std::abs(c - column) <= 1,
                   isInTile = l / 2 * 2 - 1 <= line && line <= l / 2 * 2 + 2 && c / 2 * 2 - 1 <= column &&
                              column <= c / 2 * 2 + 2;
        if (readsIt) {
          ASSERT_TRUE(std::isnan(y[at]));
        } else if (!isInTile) {
          ASSERT_EQ(y[at], clean[at]);
        }
      }
}

}  // namespace
}  // namespace popart::cpu
