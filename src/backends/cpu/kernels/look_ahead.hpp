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

// What row tiles ask for ahead: `floats` floats of each of some panels that are `panelStride` floats apart.
struct AheadWeights {
  const float *first = nullptr;
  int64_t floats = 0, panels = 1;
  ptrdiff_t panelStride = 0;
};

// Lets a tile, whose kernel steps `steps` times through kStepsPerLine of k, ask for its share. The first tiles ask for
// the first panel, those behind them for the next one.
inline void askAhead(TileArgs &args, int64_t tile, int64_t tiles, int64_t steps, const AheadWeights &weights) {
  const int64_t panel = tile * weights.panels / tiles, first = ceilDiv(panel * tiles, weights.panels),
                end = ceilDiv((panel + 1) * tiles, weights.panels);
  const LineShare share = lineShare(tile - first, end - first, steps, weights.floats / kCacheLineFloats);
  args.next = share.perStep == 0
                  ? nullptr
                  : weights.first + panel * weights.panelStride + share.first * kCacheLineFloats;
  args.nextLines = share.perStep;
}

}  // namespace popart::cpu
