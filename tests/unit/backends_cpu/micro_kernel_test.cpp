// Register tiles: the kernels of several panels give the bits of those of one, whatever they are split into; the ranges
// that products are cut into cover all rows and panels.
#include "backends/cpu/kernels/micro_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/ceil_div.hpp"

namespace popart::cpu {
namespace {

std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-1.0f, 1.0f);
  std::vector<float> floats(count);
  std::generate(floats.begin(), floats.end(), [&] { return number(random); });
  return floats;
}

// Operands of products of up to kMaxTileRows rows, two blocks of kDepth, in panels; strides that are no multiple of a
// vector.
struct Operands {
  static constexpr int64_t kDepth = 13, kPanels = 9;
  int64_t width = microKernels().panelWidth, columns = kPanels * width, stride = columns + 5;
  std::vector<float> a = randomFloats(2 * 40 * 40, 1), b = randomFloats(static_cast<size_t>(2 * kDepth * columns), 2),
                     in = randomFloats(static_cast<size_t>(kMaxTileRows * stride), 3),
                     residual = randomFloats(static_cast<size_t>(kMaxTileRows * stride), 4),
                     bias = randomFloats(static_cast<size_t>(columns), 5);
  BlockOffset blocks[2] = {{0, 0}, {7, kDepth *width}};

  TileArgs args(AMode mode, bool hasIn, bool hasEnd) const {
    TileArgs t;
    t.a = a.data();
    t.aStride = mode == AMode::kRows ? 40 : kMaxTileRows + 3;
    t.bStride = width, t.bPanelStride = 2 * kDepth * width;
    t.blocks = blocks, t.blockCount = 2, t.k = kDepth;
    t.in = hasIn ? in.data() : nullptr;
    t.inStride = t.outStride = stride;
    if (hasEnd) {
      t.end.bias = bias.data(), t.end.residual = residual.data(), t.end.residualStride = stride;
      t.end.low = -0.5f, t.end.high = 0.75f;
    }
    return t;
  }
};

void expectBitsOfOnePanel(const MicroKernels &kernels, AMode mode, int rows, int64_t panels, bool hasIn, bool hasEnd) {
  const Operands o;
  const int64_t width = kernels.panelWidth, columns = panels * width;
  std::vector<float> expected(static_cast<size_t>(kMaxTileRows * o.stride), 7.0f), got = expected;
  const auto at = [&](std::vector<float> &out, int64_t panel) {
    TileArgs t = o.args(mode, hasIn, hasEnd);
    const int64_t column = panel * width;
    t.b = o.b.data() + panel * t.bPanelStride;
    t.out = out.data() + column;
    if (t.in) t.in += column;
    if (hasEnd) t.end = t.end.at(column, column);
    return t;
  };
  for (int64_t p = 0; p < panels; ++p) kernels.full[static_cast<size_t>(mode)][rows - 1](at(expected, p));
  for (int64_t p = 0; p < panels;) {
    const MicroKernels::Choice choice = kernels.choose(mode, rows, columns - p * width);
    ASSERT_LE(p + choice.panels, panels) << rows << " rows";
    ASSERT_EQ(choice.width, choice.panels * width);
    TileArgs t = at(got, p);
    t.ahead = o.a.data(), t.aheadStride = 3, t.aheadPartStride = 100;
    t.next = o.b.data(), t.nextStride = 32;
    choice.run(t);
    p += choice.panels;
  }
  EXPECT_EQ(std::memcmp(expected.data(), got.data(), got.size() * sizeof(float)), 0)
      << rows << " rows, " << panels << " panels, mode " << static_cast<int>(mode);
}

TEST(MicroKernels, several_panels_give_the_bits_of_one) {
  const MicroKernels &kernels = microKernels();
  for (const AMode mode : {AMode::kRows, AMode::kPanel})
    for (int rows = 1; rows <= kernels.tileRows; ++rows)
      for (int64_t panels = 1; panels <= Operands::kPanels; ++panels)
        for (const bool hasIn : {false, true})
          for (const bool hasEnd : {false, true}) expectBitsOfOnePanel(kernels, mode, rows, panels, hasIn, hasEnd);
}

// As Relu and Clip.
TEST(MicroKernels, bounds_keep_what_is_no_number_and_the_signs_of_zeros) {
  const MicroKernels &kernels = microKernels();
  const float infinity = std::numeric_limits<float>::infinity();
  const float given[] = {-0.0f, 0.0f, NAN, -infinity, infinity, -1e-40f, 6.0f, 7.0f};
  for (const auto &[low, high] : {std::pair(0.0f, 6.0f), std::pair(-1.0f, -0.0f), std::pair(-0.0f, 0.0f)}) {
    std::vector<float> in(static_cast<size_t>(kernels.panelWidth)), out(in.size(), 7.0f);
    for (size_t i = 0; i < in.size(); ++i) in[i] = given[i % std::size(given)];
    TileArgs t;
    t.in = in.data(), t.out = out.data(), t.end.low = low, t.end.high = high;
    kernels.full[static_cast<size_t>(AMode::kRows)][0](t);
    for (size_t i = 0; i < in.size(); ++i) {
      float want = in[i] < low ? low : in[i];
      want = want > high ? high : want;
      EXPECT_EQ(std::memcmp(&out[i], &want, sizeof want), 0) << in[i] << " in " << low << ", " << high;
    }
  }
}

TEST(MicroKernels, one_call_writes_no_more_than_the_buffers_of_its_callers) {
  const MicroKernels &kernels = microKernels();
  for (int rows = 1; rows <= kernels.tileRows; ++rows)
    for (const AMode mode : {AMode::kRows, AMode::kPanel, AMode::kLaneRows, AMode::kLanePanel}) {
      const MicroKernels::Choice choice = kernels.choose(mode, rows, 100 * kernels.panelWidth);
      EXPECT_LE(rows * choice.width, kMaxTileFloats);
      EXPECT_GE(choice.parts, 1);
    }
}

TEST(RowTiles, cover_all_rows_in_tiles_that_kernels_have) {
  const MicroKernels &kernels = microKernels();
  for (const int64_t columns :
       {int64_t{1}, int64_t{kernels.panelWidth}, int64_t{kernels.panelWidth} + 1, int64_t{1000}})
    for (int64_t rows = 0; rows <= 300; ++rows) {
      const RowTiles tiles(rows, columns);
      EXPECT_EQ(tiles.begin(0), 0);
      EXPECT_EQ(tiles.begin(tiles.count()), rows);
      for (int64_t t = 0; t < tiles.count(); ++t) {
        const int64_t count = tiles.begin(t + 1) - tiles.begin(t);
        ASSERT_GE(count, 1) << rows << " rows";
        ASSERT_LE(count, kernels.tileRows) << rows << " rows";
      }
      // No tile has more register tiles than its rows need.
      ASSERT_LE(tiles.count(), ceilDiv(rows, std::max(1, kernels.tileRows / 2)) + 1);
    }
  EXPECT_EQ(RowTiles::ofOne(1000).begin(1), 1000);
  EXPECT_EQ(RowTiles::ofOne(0).count(), 0);
}

TEST(PanelRanges, cover_all_panels_and_keep_together_what_one_call_reads) {
  for (const int64_t together : {1, 2, 3})
    for (int64_t panels = 1; panels <= 40; ++panels)
      for (int64_t ranges = 1; ranges <= panels; ++ranges) {
        const PanelRanges split(panels, ranges, together);
        int64_t longest = 0;
        for (int64_t r = 0; r < ranges; ++r) {
          ASSERT_LT(split.begin(r), split.begin(r + 1)) << panels << " panels, " << ranges << " ranges";
          longest = std::max(longest, split.begin(r + 1) - split.begin(r));
          const bool isWhole = ceilDiv(panels, together) >= ranges && r + 1 < ranges;
          ASSERT_TRUE(!isWhole || (split.begin(r + 1) - split.begin(r)) % together == 0);
        }
        ASSERT_EQ(split.begin(0), 0);
        ASSERT_EQ(split.begin(ranges), panels);
        ASSERT_GE(split.longest(), longest);
        ASSERT_LT(split.longest(), longest + together);
      }
  EXPECT_EQ(PanelRanges::rounded(0, 2), 1);
  EXPECT_EQ(PanelRanges::rounded(1, 3), 1);
  EXPECT_EQ(PanelRanges::rounded(4, 3), 6);
}

}  // namespace
}  // namespace popart::cpu
