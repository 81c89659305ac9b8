// Software prefetch of what the processor's own prefetchers do not predict: what the end of a row tile reads and
// writes, and the weights that a later pass of a product reads. Only the time depends on it, no result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart::cpu {

// A tile in a matrix of `type` whose rows are `stride` elements apart, from element `at` on.
enum class PrefetchFor : uint8_t { kRead, kWrite };
template <PrefetchFor kUse>
void prefetchTile(const void *matrix, ptrdiff_t at, DataType type, ptrdiff_t stride, int rows, int64_t cols) {
  constexpr int64_t kLineBytes = kCacheLineFloats * static_cast<int64_t>(sizeof(float));
  const int64_t size = isHalf(type) ? 2 : 4, bytes = cols * size;
  const char *row = static_cast<const char *>(matrix) + at * size;
  for (int r = 0; r < rows; ++r, row += stride * size)
    for (int64_t b = 0; b < bytes; b += kLineBytes) __builtin_prefetch(row + b, kUse == PrefetchFor::kWrite, 2);
}

// What the epilogue of a tile reads, while the tile is being computed. `e`: of the whole matrix.
inline void prefetchOperands(const Epilogue &e, ptrdiff_t at, ptrdiff_t stride, int rows, int64_t cols) {
  if (e.other) prefetchTile<PrefetchFor::kRead>(e.other, at, e.type, stride, rows, cols);
  if (e.residual) prefetchTile<PrefetchFor::kRead>(e.residual, at, e.type, stride, rows, cols);
  if (e.program) e.program->prefetch(at, stride, rows, cols);
}
// Its results. Worth it only where they outgrow their share of the last level cache, which holds x and residual as
// well: lines that are cached cost an instruction each and gain nothing.
inline bool outgrowsCache(int64_t elements, DataType type) {
  constexpr int64_t kShare = 4;
  return elements * (isHalf(type) ? 2 : 4) > lastLevelCacheBytes() / kShare;
}
inline void prefetchResults(const Epilogue &e, const void *y, ptrdiff_t at, ptrdiff_t stride, int rows, int64_t cols) {
  if (!e.program && y != e.residual && y != e.other)
    prefetchTile<PrefetchFor::kWrite>(y, at, e.type, stride, rows, cols);
}

// The first row tile of a pass reads B once for every few multiply-adds of each row, faster than memory delivers. So
// the row tiles of the pass before ask for it, each for a share of the lines, while they multiply: for lines [first,
// first + steps * perStep); perStep 0: none.
struct LineShare {
  int64_t first = 0;
  int perStep = 0;
};

// What row tile `tile` of `tiles` asks for of a range of `lines` cache lines, if it can ask `steps` times for one line
// or for two neighbouring ones. Invariant: shares stay inside the range, and each begins where the one before ends or
// earlier, as the processor's own prefetchers stop at gaps. They cover a range of at least 2 * steps lines if tiles *
// steps * 2 >= lines.
inline LineShare lineShare(int64_t tile, int64_t tiles, int64_t steps, int64_t lines) {
  if (steps <= 0 || steps > lines) return {};
  const int perStep = tiles * steps < lines && 2 * steps <= lines ? 2 : 1;
  const int64_t each = perStep == 2 ? 2 * steps : std::min(steps, ceilDiv(lines, tiles)), first = tile * each;
  if (first >= lines) return {};
  return {std::min(first, lines - perStep * steps), perStep};
}

// Memory that will be read: `count` ranges of `floats` contiguous floats, `stride` floats apart.
struct AheadRanges {
  const float *first = nullptr;
  int64_t floats = 0, count = 1;
  ptrdiff_t stride = 0;
};

// Of `tiles` tiles, the first ask for the first range, those behind them for the next one: tile [0, tiles) of a range.
struct AheadTile {
  int64_t range, tile, tiles;
};
inline AheadTile aheadTile(int64_t tile, int64_t tiles, int64_t ranges) {
  const int64_t range = tile * ranges / tiles, first = ceilDiv(range * tiles, ranges),
                end = ceilDiv((range + 1) * tiles, ranges);
  return {range, tile - first, end - first};
}

// Lets a tile, whose kernel steps `steps` times through kStepsPerLine of k, ask for its share of weights.
inline void askAhead(TileArgs &args, int64_t tile, int64_t tiles, int64_t steps, const AheadRanges &weights) {
  const AheadTile at = aheadTile(tile, tiles, weights.count);
  const LineShare share = lineShare(at.tile, at.tiles, steps, weights.floats / kCacheLineFloats);
  args.next = share.perStep == 0 ? nullptr : weights.first + at.range * weights.stride + share.first * kCacheLineFloats;
  args.nextLines = share.perStep;
}

// Lets a tile of `parts` register tiles, each of `steps` such steps, ask for its share of what a later task reads,
// evenly over its time: several times for a line where there are fewer lines than steps, and not for all of them where
// there are more. Invariant: it asks for nothing beyond its range.
inline void askEvenly(TileArgs &args, int64_t tile, int64_t tiles, int64_t parts, int64_t steps,
                      const AheadRanges &inputs) {
  args.ahead = nullptr;
  if (inputs.floats == 0 || steps == 0) return;
  const AheadTile at = aheadTile(tile, tiles, inputs.count);
  if (at.tiles <= 0) return;
  const int64_t begin = inputs.floats * at.tile / at.tiles, end = inputs.floats * (at.tile + 1) / at.tiles;
  const int64_t apart =
      std::min({kCacheLineFloats, ceilDiv(end - begin, parts * steps), inputs.floats / (parts * steps)});
  args.ahead = inputs.first + at.range * inputs.stride + std::min(begin, inputs.floats - parts * steps * apart);
  args.aheadStride = apart;
  args.aheadPartStride = steps * args.aheadStride;
}

}  // namespace popart::cpu
