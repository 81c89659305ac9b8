// Software prefetch where the processor's own prefetchers fail: the memory that the end of a row tile reads and writes,
// and the weights that a later pass of a product reads. It affects only time, not results.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart::cpu {

// Prefetches a tile of a matrix of `type` with rows `stride` elements apart, from element `at` on. Memory that is read
// goes to the first level cache, because the end of a tile waits for it and nothing is multiplied meanwhile.
enum class PrefetchFor : uint8_t { kRead, kWrite };
template <PrefetchFor kUse>
void prefetchTile(const void *matrix, ptrdiff_t at, DataType type, ptrdiff_t stride, int rows, int64_t cols) {
  constexpr int64_t kLineBytes = kCacheLineFloats * static_cast<int64_t>(sizeof(float));
  const int64_t size = isHalf(type) ? 2 : 4, bytes = cols * size;
  const char *row = static_cast<const char *>(matrix) + at * size;
  for (int r = 0; r < rows; ++r, row += stride * size)
    for (int64_t b = 0; b < bytes; b += kLineBytes)
      __builtin_prefetch(row + b, kUse == PrefetchFor::kWrite, kUse == PrefetchFor::kWrite ? 2 : 3);
}

// Prefetches the operands of a tile's epilogue while the tile is computed. `e`: of the whole matrix. `asked`: a matrix
// that the tile before has prefetched, or nullptr.
inline void prefetchOperands(const Epilogue &e, const void *asked, ptrdiff_t at, ptrdiff_t stride, int rows,
                             int64_t cols) {
  for (const void *operand : {e.other, e.residual})
    if (operand && operand != asked) prefetchTile<PrefetchFor::kRead>(operand, at, e.type, stride, rows, cols);
  if (e.program) e.program->prefetch(at, stride, rows, cols);
}
// Prefetches the results of a tile. This pays off only if they are larger than their share of the last level cache,
// which also holds x and residual: prefetching a cached line costs an instruction and gains nothing.
inline bool outgrowsCache(int64_t elements, DataType type) {
  constexpr int64_t kShare = 4;
  return elements * (isHalf(type) ? 2 : 4) > lastLevelCacheBytes() / kShare;
}
inline void prefetchResults(const Epilogue &e, const void *y, ptrdiff_t at, ptrdiff_t stride, int rows, int64_t cols) {
  if (!e.program && y != e.residual && y != e.other)
    prefetchTile<PrefetchFor::kWrite>(y, at, e.type, stride, rows, cols);
}

// Prefetches what an update reads and writes of `count` parameters from w on (see applyUpdate).
inline void prefetchUpdate(const Update &u, const float *w, int64_t count) {
  if (u.kind == UpdateKind::kElements) return u.elements->prefetch(w - u.base, count);
  const bool isFloat = u.type == DataType::FLOAT;
  prefetchTile<PrefetchFor::kWrite>(isFloat ? w : u.base, isFloat ? 0 : w - u.base, u.type, count, 1, count);
}

// The first row tile of a pass reads B once for every few multiply-adds of each row, faster than memory delivers. So
// the row tiles of the pass before prefetch it while they multiply, each a share of the lines: lines [first, first +
// steps * perStep); perStep 0: none.
struct LineShare {
  int64_t first = 0;
  int perStep = 0;
};

// The share of row tile `tile` of `tiles` in a range of `lines` cache lines, if the tile can prefetch in `steps` steps,
// one line or two neighbouring lines in each.
// Invariant: shares are inside the range, and each begins at or before the end of the one before, because the
// processor's own prefetchers stop at gaps. They cover a range of at least 2 * steps lines if tiles * steps * 2 >=
// lines.
inline LineShare lineShare(int64_t tile, int64_t tiles, int64_t steps, int64_t lines) {
  if (steps <= 0 || steps > lines) return {};
  const int perStep = tiles * steps < lines && 2 * steps <= lines ? 2 : 1;
  const int64_t each = perStep == 2 ? 2 * steps : std::min(steps, ceilDiv(lines, tiles)), first = tile * each;
  if (first >= lines) return {};
  return {std::min(first, lines - perStep * steps), perStep};
}

// Memory to prefetch: `count` ranges of `floats` contiguous floats, `stride` floats apart.
struct AheadRanges {
  const float *first = nullptr;
  int64_t floats = 0, count = 1;
  ptrdiff_t stride = 0;
};

// Divides `tiles` tiles among ranges: the first tiles prefetch the first range, the next tiles the next one. `tile` and
// `tiles` count the tiles of one range.
struct AheadTile {
  int64_t range, tile, tiles;
};
inline AheadTile aheadTile(int64_t tile, int64_t tiles, int64_t ranges) {
  const int64_t range = tile * ranges / tiles, first = ceilDiv(range * tiles, ranges),
                end = ceilDiv((range + 1) * tiles, ranges);
  return {range, tile - first, end - first};
}

// Lets a tile prefetch its share of weights; its kernel has `steps` steps of kStepsPerLine of k.
inline void askAhead(TileArgs &args, int64_t tile, int64_t tiles, int64_t steps, const AheadRanges &weights) {
  const AheadTile at = aheadTile(tile, tiles, weights.count);
  const LineShare share = lineShare(at.tile, at.tiles, steps, weights.floats / kCacheLineFloats);
  args.next = share.perStep == 0 ? nullptr : weights.first + at.range * weights.stride + share.first * kCacheLineFloats;
  args.nextStride = share.perStep * kCacheLineFloats;
}

// Lets a tile of `parts` register tiles, each with `steps` such steps, prefetch its share of the operands of a later
// task, evenly over its time. If there are fewer lines than steps, lines are prefetched several times; if there are
// more, not all are.
// Invariant: no address outside the range is prefetched.
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

// Contiguous memory that the next row tile reads or writes. The calls of a row tile, for some panels each, prefetch it
// evenly over their time.
// Invariant: they prefetch all of it if they have enough steps, and less than a float per step beyond its end.
class AheadOfPanels {
 public:
  // `mostApart`: largest distance in floats from one step to the next.
  explicit AheadOfPanels(int64_t mostApart) : mostApart_(mostApart) {}
  // `panels`: of all calls. There is no division if length and panels are the same as in the last call.
  void moveTo(const void *first, int64_t floats, int64_t panels) {
    range_ = static_cast<const float *>(first);
    if (floats == floats_ && panels == allPanels_) return;
    floats_ = floats, allPanels_ = panels;
    perPanel_ = panels <= 1 ? floats : ceilDiv(floats, panels);
    steps_ = -1;
  }
  bool isEmpty() const { return range_ == nullptr || perPanel_ == 0; }
  // The part of the call for `panels` panels from `panel` on, which has `steps` steps.
  struct Part {
    const float *first;
    int64_t apart;
  };
  Part of(int64_t panel, int64_t panels, int64_t steps) {
    if (panels != panels_ || steps != steps_) {  // the following has divisions
      panels_ = panels, steps_ = steps;
      apart_ = steps == 0 ? 0 : std::min(mostApart_, ceilDiv(perPanel_ * panels, steps));
    }
    return {range_ + perPanel_ * panel, apart_};
  }

 private:
  const float *range_ = nullptr;
  int64_t floats_ = 0, allPanels_ = 0, perPanel_ = 0, mostApart_ = 0;
  int64_t panels_ = 0, steps_ = -1, apart_ = 0;
};

// Rows of A. If few panels have fewer steps than the rows have lines, two of three lines are prefetched: the processor
// loads their neighbours with them.
class RowsAhead {
 public:
  // `first` nullptr: nothing.
  void moveTo(const float *first, int64_t floats, int64_t panels) { range_.moveTo(first, floats, panels); }
  bool isEmpty() const { return range_.isEmpty(); }
  // For a call of `parts` register tiles of `steps` steps.
  void ask(TileArgs &args, int64_t panel, int64_t panels, int64_t parts, int64_t steps) {
    const AheadOfPanels::Part part = range_.of(panel, panels, parts * steps);
    args.ahead = part.first;
    args.aheadStride = part.apart;
    args.aheadPartStride = steps * part.apart;
  }

 private:
  static constexpr int64_t kMostApart = kCacheLineFloats * 3 / 2;
  AheadOfPanels range_{kMostApart};
};

// Rows of y that the next tile writes. A store that misses the second level cache first reads its line, and the stores
// of a tile come all at once.
class ResultsAhead {
 public:
  ResultsAhead() = default;
  // `elements` elements from element `at` of y on; nothing if a program writes its own results.
  ResultsAhead(const Epilogue &e, const void *y, ptrdiff_t at, int64_t elements, int64_t panels) {
    moveTo(e, y, at, elements, panels);
  }
  void moveTo(const Epilogue &e, const void *y, ptrdiff_t at, int64_t elements, int64_t panels) {
    if (e.program) return stop();
    range_.moveTo(elementAt(y, at, e.type), isHalf(e.type) ? elements / 2 : elements, panels);
  }
  void stop() { range_.moveTo(nullptr, 0, 1); }
  bool isEmpty() const { return range_.isEmpty(); }
  // For a call that does not prefetch weights.
  void ask(TileArgs &args, int64_t panel, int64_t panels, int64_t steps) {
    const AheadOfPanels::Part part = range_.of(panel, panels, steps);
    args.next = part.first;
    args.nextStride = part.apart + part.apart % 2;
  }

 private:
  static constexpr int64_t kLines = 2 * kCacheLineFloats;
  AheadOfPanels range_{kLines};
};

}  // namespace popart::cpu
