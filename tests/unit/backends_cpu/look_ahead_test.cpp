// Which lines row tiles ask for: of every range and number of tiles, inside the range, without gaps, and all of it
// where the tiles can ask so often.
#include "backends/cpu/kernels/look_ahead.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backends/cpu/kernels/conv_window.hpp"

namespace popart::cpu {
namespace {

TEST(LookAhead, shares_of_a_range_are_inside_it_and_have_no_gaps) {
  int covered = 0;
  for (int64_t tiles = 1; tiles <= 33; ++tiles)
    for (const int64_t steps : {0, 1, 3, 16, 48, 64, 96})
      for (const int64_t lines : {0, 1, 2, 5, 40, 96, 191, 256, 384, 768, 1000}) {
        int64_t end = 0;
        for (int64_t tile = 0; tile < tiles; ++tile) {
          const LineShare share = lineShare(tile, tiles, steps, lines);
          if (share.perStep == 0) continue;
          ASSERT_GE(share.first, 0);
          ASSERT_LE(share.first, end) << "a gap before tile " << tile << " of " << tiles;
          end = share.first + share.perStep * steps;
          ASSERT_LE(end, lines) << "tile " << tile << " of " << tiles << ", " << steps << " steps";
        }
        const bool canCover = steps > 0 && 2 * steps <= lines && tiles * steps * 2 >= lines;
        if (!canCover) continue;
        ASSERT_EQ(end, lines) << tiles << " tiles of " << steps << " steps";
        ++covered;
      }
  EXPECT_GT(covered, 500);
}

// Both passes have the same k. A panel of the next one has a line for each k and vector; a tile asks for lines once
// every kStepsPerLine k.
TEST(LookAhead, five_row_tiles_cover_the_next_pass) {
  const int64_t width = microKernels().panelWidth;
  for (int64_t k = 16; k <= 384; ++k) {
    const int64_t steps = k / kStepsPerLine, lines = k * width / kCacheLineFloats;
    int64_t end = 0;
    for (int64_t tile = 0; tile < 5; ++tile)
      if (const LineShare share = lineShare(tile, 5, steps, lines); share.perStep > 0)
        end = share.first + share.perStep * steps;
    EXPECT_EQ(end, lines) << "k " << k;
  }
}

TEST(LookAhead, tiles_get_addresses_of_their_share) {
  std::vector<float> weights(100 * kCacheLineFloats);
  TileArgs args;
  askAhead(args, 1, 2, 30, {weights.data(), static_cast<int64_t>(weights.size())});
  EXPECT_EQ(args.next, weights.data() + 40 * kCacheLineFloats);  // two lines at a time: the last 60
  EXPECT_EQ(args.nextStride, 2 * kCacheLineFloats);
  askAhead(args, 0, 1, 30, {weights.data(), 10 * kCacheLineFloats});
  EXPECT_EQ(args.next, nullptr) << "fewer lines than the tile would ask for";
}

// The lines that a tile asks for: those of `args.next` in each step of its register tiles.
void markWeights(const TileArgs &args, int64_t steps, const std::vector<float> &all, std::vector<bool> &asked) {
  if (!args.next) return;
  for (int64_t line = 0; line < steps * args.nextStride / kCacheLineFloats; ++line) {
    const int64_t at = (args.next - all.data()) / kCacheLineFloats + line;
    ASSERT_GE(at, 0);
    ASSERT_LT(at, static_cast<int64_t>(asked.size()));
    asked[static_cast<size_t>(at)] = true;
  }
}

// Panels that one kernel reads together are as far apart as the k of all passes; what is between them is of others.
TEST(LookAhead, tiles_of_several_panels_ask_for_the_next_pass_of_each) {
  const int64_t width = microKernels().panelWidth, passes = 3;
  for (const int64_t k : {16, 48, 192, 384})
    for (const int64_t panels : {1, 2, 3})
      for (const int64_t tiles : {5, 6, 11, 16}) {
        const int64_t lines = k * width / kCacheLineFloats, parts = panels == 1 ? 1 : 2;
        std::vector<float> weights(static_cast<size_t>(panels * passes * k * width));
        std::vector<bool> asked(weights.size() / kCacheLineFloats);
        for (int64_t tile = 0; tile < tiles; ++tile) {
          TileArgs args;
          const int64_t steps = parts * (k / kStepsPerLine);
          askAhead(args, tile, tiles, steps, {weights.data() + k * width, k * width, panels, passes * k * width});
          markWeights(args, steps, weights, asked);
        }
        for (size_t line = 0; line < asked.size(); ++line) {
          const bool isNext = static_cast<int64_t>(line) / lines % passes == 1;
          const bool isCovered = isNext && panels < 3;  // for three panels five tiles are too few
          ASSERT_TRUE(isNext || !asked[line]) << "line " << line << " is of another pass";
          ASSERT_TRUE(!isCovered || asked[line]) << tiles << " tiles, k " << k << ", line " << line;
        }
      }
}

TEST(LookAhead, inputs_are_asked_for_evenly) {
  std::vector<float> rows(4 * 1000);
  for (const int64_t tiles : {1, 2, 7, 40})
    for (const int64_t steps : {1, 16, 144}) {
      const AheadRanges inputs{rows.data(), 700, 4, 1000};
      std::vector<bool> asked(rows.size() / kCacheLineFloats + 1);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        TileArgs args;
        askEvenly(args, tile, tiles, 2, steps, inputs);
        ASSERT_TRUE(args.ahead);
        for (int64_t step = 0; step < 2 * steps; ++step) {
          const ptrdiff_t at =
              args.ahead - rows.data() + step / steps * args.aheadPartStride + step % steps * args.aheadStride;
          ASSERT_LT(at % 1000, 700) << "between two rows";
          ASSERT_LT(at, static_cast<ptrdiff_t>(rows.size()));
          asked[static_cast<size_t>(at / kCacheLineFloats)] = true;
        }
      }
      // A whole number of floats from step to step, so that one tile alone may not reach the end of its row.
      const bool hasEnoughSteps = tiles >= 8 && tiles / 4 * 2 * steps * kCacheLineFloats >= 700;
      for (int64_t row = 0; hasEnoughSteps && row < 4; ++row)
        for (int64_t at = row * 1000 + kCacheLineFloats; at < row * 1000 + 684; at += kCacheLineFloats)
          ASSERT_TRUE(asked[static_cast<size_t>(at / kCacheLineFloats)]) << tiles << " tiles, float " << at;
    }
  TileArgs args;
  args.ahead = rows.data();
  askEvenly(args, 0, 3, 1, 10, {});
  EXPECT_EQ(args.ahead, nullptr) << "there is no later chunk";
}

// The lines of `range` that the calls of a row tile for `panels` panels ask for, two panels at a time.
std::vector<bool> linesOfCalls(int64_t floats, int64_t panels, int64_t stepsOfPanel, int64_t mostApart) {
  std::vector<float> range(static_cast<size_t>(floats + 2 * stepsOfPanel));
  std::vector<bool> asked(static_cast<size_t>(floats / kCacheLineFloats));
  AheadOfPanels ahead(mostApart);
  ahead.moveTo(range.data(), floats, panels);
  for (int64_t panel = 0; panel < panels; panel += 2) {
    const int64_t count = std::min<int64_t>(2, panels - panel), steps = count * stepsOfPanel;
    const AheadOfPanels::Part part = ahead.of(panel, count, steps);
    for (int64_t step = 0; step < steps; ++step) {
      const ptrdiff_t at = part.first - range.data() + step * part.apart;
      EXPECT_GE(at, 0);
      EXPECT_LT(at, floats + std::max(steps, panels)) << panels << " panels, " << stepsOfPanel << " steps";
      if (at >= 0 && at < floats) asked[static_cast<size_t>(at / kCacheLineFloats)] = true;
    }
  }
  return asked;
}

TEST(LookAhead, the_panels_of_a_row_tile_ask_for_the_next_one) {
  int covered = 0;
  for (const int64_t panels : {1, 2, 3, 5, 8, 16})
    for (const int64_t steps : {0, 1, 4, 16, 64, 96})
      for (const int64_t lines : {1, 12, 48, 100, 192, 768}) {
        const std::vector<bool> asked = linesOfCalls(lines * kCacheLineFloats, panels, steps, kCacheLineFloats);
        if (panels * steps < lines) continue;
        ++covered;
        EXPECT_EQ(std::count(asked.begin(), asked.end(), false), 0)
            << lines << " lines, " << panels << " panels of " << steps << " steps";
      }
  EXPECT_GT(covered, 30);
}

TEST(LookAhead, results_are_asked_for_twice_in_every_stride) {
  std::vector<float> y(4096);
  Epilogue e;
  TileArgs args;
  ResultsAhead floats(e, y.data(), 1024, 12 * 64, 2);
  floats.ask(args, 0, 2, 32);
  EXPECT_EQ(args.next, y.data() + 1024);
  EXPECT_EQ(args.nextStride, 24);
  floats.ask(args, 1, 1, 16);
  EXPECT_EQ(args.next, y.data() + 1024 + 6 * 64);
  floats.ask(args, 0, 2, 1000);
  EXPECT_EQ(args.nextStride, 2) << "half a stride is a whole number of floats";
  e.type = DataType::BFLOAT16;
  ResultsAhead halves(e, y.data(), 1024, 12 * 64, 2);
  halves.ask(args, 0, 2, 32);
  EXPECT_EQ(args.next, y.data() + 512);
  EXPECT_EQ(args.nextStride, 12);
  EXPECT_TRUE(ResultsAhead().isEmpty());
}

// Input pixels that the windows of a chunk read, by image, line and column.
std::vector<bool> pixelsRead(const WindowShape &s, const WindowChunk &c) {
  std::vector<bool> read(static_cast<size_t>(s.n * s.in[1] * s.in[2]));
  for (int64_t image = c.image; image < c.image + c.images; ++image)
    for (int64_t line = c.line; line < c.line + c.lines; ++line)
      for (int64_t pixel = c.pixel; pixel < c.pixel + c.pixels; ++pixel)
        for (int64_t i = 0; i < s.taps[1]; ++i)
          for (int64_t j = 0; j < s.taps[2]; ++j) {
            const int64_t row = line * s.stride[1] + i * s.dilation[1] - s.low[1],
                          column = pixel * s.stride[2] + j * s.dilation[2] - s.low[2];
            if (row < 0 || row >= s.in[1] || column < 0 || column >= s.in[2]) continue;
            read[static_cast<size_t>((image * s.in[1] + row) * s.in[2] + column)] = true;
          }
  return read;
}

TEST(LookAhead, a_chunk_and_the_rows_asked_for_hold_what_the_next_chunk_reads) {
  int found = 0;
  for (const int64_t kernel : {1, 3, 5})
    for (const int64_t stride : {1, 2})
      for (const ChunkSize &size :
           {ChunkSize{1, 1, 24}, ChunkSize{1, 4, 24}, ChunkSize{1, 3, 8}, ChunkSize{2, 24, 24}}) {
        WindowShape s;
        s.n = 4, s.channels = s.pixelStride = 5;
        s.taps = {1, kernel, kernel}, s.stride = {1, stride, stride}, s.low = {0, kernel / 2, kernel / 2};
        s.in = {1, 24, 24}, s.out = {1, 24 / stride, 24 / stride};
        const Windows windows(s, size);
        for (int64_t c = 0; c + 1 < windows.chunks(); ++c) {
          std::vector<bool> known = pixelsRead(s, windows.chunk(c));
          const std::vector<bool> wanted = pixelsRead(s, windows.chunk(c + 1));
          const Windows::InputRows rows = windows.newRows(windows.chunk(c), windows.chunk(c + 1));
          for (int64_t row = 0; row < rows.count; ++row)
            for (int64_t at = 0; at < rows.floats; ++at) {
              const auto pixel = static_cast<size_t>((rows.first + row * rows.stride + at) / s.pixelStride);
              ASSERT_LT(pixel, known.size());
              known[pixel] = true;
            }
          for (size_t pixel = 0; pixel < wanted.size(); ++pixel)
            ASSERT_TRUE(known[pixel] || !wanted[pixel]) << kernel << " x " << kernel << ", chunk " << c;
          found += rows.floats > 0;
        }
      }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace popart::cpu
