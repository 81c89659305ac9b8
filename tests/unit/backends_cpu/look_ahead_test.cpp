// Which lines row tiles ask for: of every range and number of tiles, inside the range, without gaps, and all of it
// where the tiles can ask so often.
#include "backends/cpu/kernels/look_ahead.hpp"

#include <gtest/gtest.h>

#include <vector>

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
  EXPECT_EQ(args.nextLines, 2);
  askAhead(args, 0, 1, 30, {weights.data(), 10 * kCacheLineFloats});
  EXPECT_EQ(args.next, nullptr) << "fewer lines than the tile would ask for";
}

}  // namespace
}  // namespace popart::cpu
