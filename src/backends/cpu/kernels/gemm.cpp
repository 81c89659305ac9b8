// Loop nest of the matrix products.
//
//   task = (batch, column block, row block)          tasks of one column block are neighbours and share its panels;
//                                                   column blocks are inside where they differ and are packed
//     for each k pass                                 B panels of the pass: in place, or packed into scratch (L2)
//       for each row tile                             A rows of the tile stay in the first level cache (L1)
//         for each panel: tile kernel                 partial sums between passes live in scratch, never in C
//
// C is written once, by the epilogue after the last pass, so C may alias the epilogue's residual.
#include "backends/cpu/kernels/gemm.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/look_ahead.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/kernels/pairs.hpp"

namespace popart::cpu {
namespace {

// Rows that are far apart may map to the same sets of the first level cache: copying pays off from this many calls of a
// kernel on.
constexpr int64_t kCallsToCopyRows = 3;
constexpr int64_t kRowsToSpread = 8;  // rows of B that are packed together
constexpr int64_t kColumnBlock = 16;  // at least the rows of a tile
static_assert(kMaxTileRows <= kColumnBlock);

// a[m, k] with arbitrary strides -> packed[k][rows]. Where rows are contiguous, columns are copied in blocks of a fixed
// size as far as `readable` floats of the source allow: the next column overwrites the excess, that of the last column
// goes into the padding after the tile.
void packTile(const float *a, ptrdiff_t rowStride, ptrdiff_t colStride, int rows, int64_t k, int64_t readable,
              float *packed) {
  if (rowStride == 1) {
    int64_t col = 0;
    for (; col < k && col * colStride + kColumnBlock <= readable; ++col)
      std::memcpy(packed + col * rows, a + col * colStride, kColumnBlock * sizeof(float));
    for (; col < k; ++col)
      std::memcpy(packed + col * rows, a + col * colStride, static_cast<size_t>(rows) * sizeof(float));
    return;
  }
  for (int64_t col = 0; col < k; ++col) {
    for (int row = 0; row < rows; ++row) packed[col * rows + row] = a[row * rowStride + col * colStride];
  }
}

}  // namespace

struct Matmul::Block {
  const float *a;
  const float *b;
  const uint16_t *aHalves;
  const uint16_t *bHalves;
  float *c;
  ptrdiff_t cOffset;
  int64_t firstPanel, endPanel;
  int64_t firstTile, endTile;
  int64_t firstK, endK;
  ptrdiff_t biasOffset;
  const float *panels;  // panel firstPanel at k = firstK
  ptrdiff_t kStride, panelStride;
  float *partial;
  float *packedA;
};

// A row tile of a block: its rows and the next tile's rows, its prefetches, and the arguments of its kernels, which
// change little from one row tile to the next.
struct Matmul::RowTile {
  int64_t index, row, end, nextEnd;
  ResultsAhead results;
  RowsAhead inputs;
  TileArgs tile;

  int rows() const { return static_cast<int>(end - row); }
};

const float *Matmul::panelSource(const Block &block, const MatmulArgs &args, float *packed, ptrdiff_t &kStride,
                                 ptrdiff_t &panelStride) const noexcept {
  const int width = microKernels().panelWidth;
  const int64_t passK = block.endK - block.firstK;
  kStride = width;
  panelStride = passK * width;
  if (hasHalves()) return packHalves(block, args, packed), packed;
  if (shape_.bLayout == BLayout::kComputed) {
    for (int64_t p = block.firstPanel; p < block.endPanel; ++p)
      args.panels->run(p, block.firstK, passK, packed + (p - block.firstPanel) * panelStride);
    return packed;
  }
  if (shape_.bLayout == BLayout::kPacked) {
    panelStride = shape_.k * width;
    return block.b + block.firstPanel * panelStride + block.firstK * width;
  }
  if (shape_.bLayout == BLayout::kStrided) {
    const bool wholePanels = block.endPanel * width <= shape_.n;
    if (args.bColStride == 1 && wholePanels && block.endTile - block.firstTile == 1) {
      kStride = args.bRowStride;
      panelStride = width;
      return block.b + block.firstK * args.bRowStride + block.firstPanel * width;
    }
    // If rows of B are contiguous, a few at a time are distributed over all panels, so that B is read sequentially.
    const int64_t step = args.bColStride == 1 ? kRowsToSpread : passK;
    for (int64_t k = 0; k < passK; k += step) {
      for (int64_t p = block.firstPanel; p < block.endPanel; ++p) {
        const int cols = static_cast<int>(std::min<int64_t>(width, shape_.n - p * width));
        const float *source = block.b + (block.firstK + k) * args.bRowStride + p * width * args.bColStride;
        if (args.bColStride == 1 && k + 2 * step <= passK)
          prefetchTile<PrefetchFor::kRead>(source, step * args.bRowStride, DataType::FLOAT, args.bRowStride,
                                           static_cast<int>(step), cols);
        packPanel(source, args.bRowStride, args.bColStride, std::min(step, passK - k), cols, width,
                  packed + (p - block.firstPanel) * panelStride + k * width);
      }
    }
    return packed;
  }
  // Element (k, n) of the transpose is at panel k / width, row n, lane k % width of the packed matrix. Its blocks are
  // far apart: each is prefetched while the one before it is packed.
  const auto blockAt = [&](int64_t p, int64_t k) { return block.b + (k / width * shape_.n + p * width) * width; };
  for (int64_t p = block.firstPanel; p < block.endPanel; ++p) {
    const int cols = static_cast<int>(std::min<int64_t>(width, shape_.n - p * width));
    for (int64_t k = block.firstK; k < block.endK;) {
      const int64_t lane = k % width, next = std::min(k - lane + width, block.endK);
      if (next < block.endK)
        prefetchTile<PrefetchFor::kRead>(blockAt(p, next), 0, DataType::FLOAT, width, cols, width);
      else if (p + 1 < block.endPanel)
        prefetchTile<PrefetchFor::kRead>(blockAt(p + 1, block.firstK), 0, DataType::FLOAT, width, cols, width);
      packPanel(blockAt(p, k) + lane, 1, width, next - k, cols, width,
                packed + (p - block.firstPanel) * panelStride + (k - block.firstK) * width);
      k = next;
    }
  }
  return packed;
}

// Packs 16-bit numbers in the form that tiles read: pairs, or floats.
void Matmul::packHalfPanel(const uint16_t *source, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols,
                           int width, float *panel) const noexcept {
  if (hasPairs()) return packPairPanel(source, rowStride, colStride, k, cols, width, panel);
  widenPanel(shape_.factors, source, rowStride, colStride, k, cols, width, panel);
}

// Element k of a pass is element `begin` + k of B.
void Matmul::packHalves(const Block &block, const MatmulArgs &args, float *packed) const noexcept {
  const int width = kernels_->panelWidth;
  const int64_t perStep = hasPairs() ? 2 : 1, begin = perStep * block.firstK,
                passK = std::min(depth_, perStep * block.endK) - begin,
                panelFloats = (block.endK - block.firstK) * width;
  const bool inPanels = shape_.bLayout != BLayout::kStrided,
             isTransposed = shape_.bLayout == BLayout::kPackedTransposed;
  int64_t step = std::max<int64_t>(1, passK);
  if (!inPanels && args.bColStride == 1) step = perStep * kRowsToSpread;
  for (int64_t k = 0; k < passK;) {
    // Element (k, n) of a transpose in panels is at panel k / width, row n, lane k % width.
    const int64_t lane = (begin + k) % width, left = isTransposed ? std::min(width - lane, passK - k) : passK - k;
    const int64_t count = std::min(step, left);
    for (int64_t p = block.firstPanel; p < block.endPanel; ++p) {
      const int cols = static_cast<int>(std::min<int64_t>(width, shape_.n - p * width));
      float *to = packed + (p - block.firstPanel) * panelFloats + k / perStep * width;
      if (isTransposed)
        packHalfPanel(block.bHalves + ((begin + k) / width * shape_.n + p * width) * width + lane, 1, width, count,
                      cols, width, to);
      else if (inPanels)
        packHalfPanel(block.bHalves + (p * depth_ + begin + k) * width, width, 1, count, width, width, to);
      else
        packHalfPanel(block.bHalves + (begin + k) * args.bRowStride + p * width * args.bColStride, args.bRowStride,
                      args.bColStride, count, cols, width, to);
    }
    k += count;
  }
}

float *Matmul::panelAt(const Block &block, int64_t row, int64_t col) const noexcept {
  const int64_t width = microKernels().panelWidth;
  return block.c + (col / width * shape_.m + row) * width;
}

// The results that the next row tile of the block writes, if tiles prefetch them; they do not if they prefetch B.
void Matmul::askForResults(const Block &block, const MatmulArgs &args, RowTile &t) const noexcept {
  const bool isAsked = !args.update && !readsBOnce_ && t.index + 1 < block.endTile && block.endK == shape_.k &&
                       block.firstPanel == 0 && block.endPanel == panels_ && args.cRowStride == shape_.n;
  if (!isAsked) return t.results.stop();
  t.results.moveTo(args.epilogue, args.c, block.cOffset + t.end * args.cRowStride, (t.nextEnd - t.end) * shape_.n,
                   panels_);
}

// Prefetches the memory that the end of a tile reads and writes, while the tile is computed.
void Matmul::prefetchEnd(const Block &block, const MatmulArgs &args, const void *asked, int64_t row, int rows,
                         int64_t col, int64_t cols) const noexcept {
  const int64_t width = microKernels().panelWidth;
  if (const Update *u = args.update) {
    if (args.parameterLayout != MatmulArgs::ParameterLayout::kPacked) return;
    for (int64_t done = 0; done < cols; done += width)
      prefetchUpdate(*u, panelAt(block, row, col + done), rows * width);
    return;
  }
  const ptrdiff_t at = block.cOffset + row * args.cRowStride + col;
  prefetchOperands(args.epilogue, asked, at, args.cRowStride, rows, cols);
  if (outgrowsCache_ && !asked) prefetchResults(args.epilogue, args.c, at, args.cRowStride, rows, cols);
}

void Matmul::emit(const Block &block, const MatmulArgs &args, const float *sums, ptrdiff_t stride, int64_t row,
                  int rows, int64_t col, int64_t cols) const noexcept {
  const int64_t width = microKernels().panelWidth;
  if (args.update && args.parameterLayout == MatmulArgs::ParameterLayout::kRows)
    return applyUpdate(*args.update, sums, stride, block.c + row * args.cRowStride + col, args.cRowStride, rows, cols);
  if (args.update) {
    for (int64_t done = 0; done < cols; done += width) {
      float *panel = panelAt(block, row, col + done);
      applyPanelUpdate(*args.update, sums + done, stride, panel, width, rows, std::min(width, cols - done));
    }
    return;
  }
  const ptrdiff_t at = block.cOffset + row * args.cRowStride + col;
  applyEpilogue(args.epilogue.at(at, block.biasOffset + col), sums, stride, elementAt(args.c, at, args.epilogue.type),
                args.cRowStride, rows, cols);
}

AMode Matmul::rowSource(const Block &block, const MatmulArgs &args, int64_t row, int rows,
                        TileArgs &tile) const noexcept {
  tile.a = block.a + row * args.aRowStride + block.firstK * args.aColStride;
  tile.aStride = args.aRowStride;
  const int64_t panels = block.endPanel - block.firstPanel;
  if (args.rows) {
    args.rows->run(row, rows, block.firstK, tile.k, block.packedA, kRowCopyStride);
    tile.a = block.packedA;
    tile.aStride = kRowCopyStride;
    return AMode::kRows;
  }
  if (args.aColStride == 1) {
    if (rows <= kFewRows || panels < kCallsToCopyRows * rowTiles_.panelsTogether() || args.aRowStride == tile.k)
      return AMode::kRows;
    for (int i = 0; i < rows; ++i) {
      std::memcpy(block.packedA + i * kRowCopyStride, tile.a + i * args.aRowStride,
                  static_cast<size_t>(tile.k) * sizeof(float));
    }
    tile.a = block.packedA;
    tile.aStride = kRowCopyStride;
    return AMode::kRows;
  }
  if (args.aRowStride == 1 && panels == 1) {
    tile.aStride = args.aColStride;
    return AMode::kPanel;
  }
  const int64_t readable = (shape_.k - 1 - block.firstK) * args.aColStride + shape_.m - row;
  packTile(tile.a, args.aRowStride, args.aColStride, rows, tile.k, readable, block.packedA);
  tile.a = block.packedA;
  tile.aStride = rows;
  return AMode::kPanel;
}

AMode Matmul::widenedSource(const Block &block, const MatmulArgs &args, int64_t row, int rows,
                            TileArgs &tile) const noexcept {
  const uint16_t *a = block.aHalves + row * args.aRowStride + block.firstK * args.aColStride;
  tile.a = block.packedA;
  if (args.aColStride == 1) {
    widenRows(shape_.factors, a, args.aRowStride, tile.k, rows, kRowCopyStride, block.packedA);
    tile.aStride = kRowCopyStride;
    return AMode::kRows;
  }
  widenPanel(shape_.factors, a, args.aColStride, args.aRowStride, tile.k, rows, rows, block.packedA);
  tile.aStride = rows;
  return AMode::kPanel;
}

// A row of contiguous pairs is read in place if few panels share it; otherwise the pairs are copied to contiguous
// memory.
AMode Matmul::pairSource(const Block &block, const MatmulArgs &args, int64_t row, int rows,
                         TileArgs &tile) const noexcept {
  const int64_t begin = 2 * block.firstK, passK = std::min(depth_, 2 * block.endK) - begin;
  const uint16_t *a = block.aHalves + row * args.aRowStride + begin * args.aColStride;
  tile.a = block.packedA;
  if (args.aColStride != 1) {
    packPairPanel(a, args.aColStride, args.aRowStride, passK, rows, rows, block.packedA);
    tile.aStride = rows;
    return AMode::kPanel;
  }
  if (depth_ % 2 == 0 && args.aRowStride % 2 == 0 &&
      block.endPanel - block.firstPanel < kCallsToCopyRows * rowTiles_.panelsTogether()) {
    tile.a = reinterpret_cast<const float *>(a);
    tile.aStride = args.aRowStride / 2;
    return AMode::kRows;
  }
  copyPairRows(a, args.aRowStride, passK, rows, kRowCopyStride, block.packedA);
  tile.aStride = kRowCopyStride;
  return AMode::kRows;
}

// Prefetches the next tile's rows of A, which may not be cached yet, if they are contiguous.
void Matmul::askForRows(const Block &block, const MatmulArgs &args, const TileArgs &tile, RowTile &t) const noexcept {
  const int rows = t.rows();
  const bool areContiguous = !hasHalves() && args.aColStride == 1 && args.aRowStride == tile.k;
  if (!areContiguous || t.end + rows > shape_.m) return t.inputs.moveTo(nullptr, 0, 1);
  t.inputs.moveTo(block.a + t.end * args.aRowStride, rows * tile.k, block.endPanel - block.firstPanel);
}

// The same for other rows: each panel's product prefetches its share.
void Matmul::lookAhead(const Block &block, const MatmulArgs &args, int64_t row, int rows, int64_t panel,
                       TileArgs &tile) const noexcept {
  tile.ahead = nullptr;
  if (hasHalves() || tile.a != block.packedA || row + 2 * rows > shape_.m) return;
  const float *next = block.a + (row + rows) * args.aRowStride + block.firstK * args.aColStride;
  const int64_t lines = tile.k / kStepsPerLine;
  if (args.aColStride != 1) {  // one cache line per column, addressed by the tile's last row
    const int64_t column = panel * lines;
    if (column < tile.k) tile.ahead = next + (rows - 1) * args.aRowStride + column * args.aColStride;
    tile.aheadStride = args.aColStride;
    tile.aheadPartStride = lines * args.aColStride;
    return;
  }
  // This panel prefetches one row (and the start of its next pass).
  tile.aheadPartStride = args.aRowStride;
  const int64_t at = panel * tile.aheadPartStride;
  if (at < rows * args.aRowStride) tile.ahead = next + at;
  tile.aheadStride = kCacheLineFloats;
}

// The same for B: a row tile prefetches its share of the next pass for the panels that `kernel` reads. In the last
// pass, it prefetches the first pass of the panels after those of the block.
void Matmul::lookAheadInB(const Block &block, int64_t rowTile, int64_t panel, const MicroKernels::Choice &kernel,
                          TileArgs &tile) const noexcept {
  tile.next = nullptr;
  if (!readsBOnce_) return;
  const bool isLast = block.endK == shape_.k;
  const int64_t width = kernels_->panelWidth, firstK = isLast ? 0 : block.endK,
                next = panel + (isLast ? block.endPanel - block.firstPanel : 0);
  if (next >= panels_) return;
  askAhead(tile, rowTile - block.firstTile, block.endTile - block.firstTile, kernel.parts * (tile.k / kStepsPerLine),
           {block.b + (next * shape_.k + firstK) * width, std::min(kBlock_, shape_.k - firstK) * width,
            std::min<int64_t>(kernel.panels, panels_ - next), shape_.k * width});
}

// One row tile reads each panel of B once, which is fastest without jumps between panels. Its rows are not copied.
bool Matmul::takesOnePass(const MatmulArgs &args) const noexcept {
  return rowTiles() == 1 && !packsB() && !args.rows && args.aColStride == 1 &&
         (shape_.m <= kFewRows || args.aRowStride == shape_.k);
}

// Memory of the sums of a row tile between passes, or before an update of rows.
float *Matmul::partialRow(const Block &block, int64_t row) const noexcept {
  if (shape_.k <= kBlock_) return block.partial;
  const int64_t width = kernels_->panelWidth;
  return block.partial + (row - firstRow(block.firstTile)) * (block.endPanel - block.firstPanel) * width;
}

void Matmul::runTileRow(const Block &block, const MatmulArgs &args, RowTile &rowTile) const noexcept {
  const int64_t row = rowTile.row;
  const int rows = rowTile.rows();
  const int64_t width = kernels_->panelWidth;
  TileArgs &tile = rowTile.tile;
  const AMode mode = hasPairs()    ? pairSource(block, args, row, rows, tile)
                     : hasHalves() ? widenedSource(block, args, row, rows, tile)
                                   : rowSource(block, args, row, rows, tile);
  const bool first = block.firstK == 0, last = block.endK == shape_.k;
  const bool collects = shape_.updatesRows || !last;  // computes the sums of all panels before it uses them
  const auto end = last && !args.update ? tileEnd(args.epilogue, args.cRowStride) : std::nullopt;
  askForResults(block, args, rowTile);
  ResultsAhead &results = rowTile.results;
  // The matrix whose lines the tile before has prefetched.
  const void *asked = !results.isEmpty() && rowTile.index > block.firstTile ? args.c : nullptr;
  askForRows(block, args, tile, rowTile);
  const Epilogue &e = args.epilogue;
  const bool prefetchesEnd = last && (args.update || e.residual || e.other || e.program || (outgrowsCache_ && !asked));
  const ptrdiff_t partialStride = (block.endPanel - block.firstPanel) * width;
  float *const partials = first && !collects ? nullptr : partialRow(block, row);
  alignas(64) float finished[kMaxTileFloats];
  tile.inStride = partialStride;
  const int64_t endCol = std::min(block.endPanel * width, shape_.n), steps = tile.k / kStepsPerLine;
  for (int64_t p = block.firstPanel; p < block.endPanel;) {
    const int64_t left = endCol - p * width;
    const auto choice = kernels_->choose(mode, rows, takesOnePanel_ ? std::min(left, width) : left);
    do {  // while the kernel fits the number of panels left
      const int64_t col = p * width, panel = p - block.firstPanel,
                    cols = std::min(choice.panels * width, shape_.n - col);
      lookAheadInB(block, rowTile.index, p, choice, tile);
      if (!results.isEmpty() && !tile.next) results.ask(tile, panel, choice.panels, choice.parts * steps);
      if (rowTile.inputs.isEmpty())
        lookAhead(block, args, row, rows, panel, tile);
      else
        rowTile.inputs.ask(tile, panel, choice.panels, choice.parts, steps);
      tile.b = block.panels + panel * block.panelStride;
      float *const partial = partials ? partials + panel * width : nullptr;
      tile.in = first ? nullptr : partial;
      const bool plain = end && cols == choice.width;
      tile.end = plain ? end->at(block.cOffset + row * args.cRowStride + col, block.biasOffset + col) : TileEnd();
      tile.out = collects ? partial : plain ? block.c + row * args.cRowStride + col : finished;
      tile.outStride = collects ? partialStride : plain ? args.cRowStride : choice.width;
      if (prefetchesEnd) prefetchEnd(block, args, asked, row, rows, col, cols);
      choice.run(tile);
      if (!collects && !plain) emit(block, args, finished, tile.outStride, row, rows, col, cols);
      p += choice.panels;
    } while (p + choice.panels <= block.endPanel && p * width + choice.width <= endCol);
  }
  if (!collects || !last) return;
  const int64_t column = block.firstPanel * width;
  emit(block, args, partials, partialStride, row, rows, column, endCol - column);
}

bool Matmul::isOuterUpdate(const MatmulArgs &args) const noexcept {
  return !hasHalves() && shape_.bLayout == BLayout::kStrided && shape_.k <= kMaxOuterDepth &&
         args.parameterLayout == MatmulArgs::ParameterLayout::kPacked && args.aRowStride == 1 && args.bColStride == 1;
}

void Matmul::runDot(const Block &block, const MatmulArgs &args, float *scratch) const noexcept {
  const int64_t width = microKernels().panelWidth;
  const int64_t begin = block.firstPanel * width, end = std::min(shape_.n, block.endPanel * width);
  DotArgs dot{block.a, args.aRowStride, shape_.m, shape_.n, shape_.k, block.b, block.c, args.cRowStride};
  if (args.aColStride != 1) {
    for (int64_t i = 0; i < shape_.m; ++i) {
      for (int64_t k = 0; k < shape_.k; ++k)
        scratch[i * shape_.k + k] = block.a[i * args.aRowStride + k * args.aColStride];
    }
    dot.a = scratch;
    dot.aStride = shape_.k;
  }
  if (!args.update && args.epilogue.isStore()) return dotPackedTransposed(dot, begin, end);
  dot.out = scratch + shape_.m * shape_.k;
  dot.outStride = shape_.n;
  dotPackedTransposed(dot, begin, end);
  emit(block, args, dot.out + begin, dot.outStride, 0, static_cast<int>(shape_.m), begin, end - begin);
}

void Matmul::runOuterUpdate(const Block &block, const MatmulArgs &args) const noexcept {
  const OuterUpdateArgs outer{block.a,  args.aColStride, block.b, args.bRowStride, shape_.m,
                              shape_.n, shape_.k,        block.c, args.update};
  updateByOuterProducts(outer, firstRow(block.firstTile), firstRow(block.endTile), block.firstPanel, block.endPanel);
}

void Matmul::run(int task, const MatmulArgs &args, float *scratch) const noexcept {
  runBlock(partOf(task), 0, args, scratch);
}

void Matmul::runPart(const Part &part, const MatmulArgs &args, float *scratch) const noexcept {
  const ptrdiff_t origin = firstRow(part.firstTile) * args.cRowStride + part.firstPanel * panelWidth();
  for (int64_t panel = part.firstPanel; panel < part.endPanel; panel += panelsPerTask_)
    for (int64_t tile = part.firstTile; tile < part.endTile; tile += tilesPerTask_)
      runBlock({part.batch, tile, std::min(part.endTile, tile + tilesPerTask_), panel,
                std::min(part.endPanel, panel + panelsPerTask_)},
               origin, args, scratch);
}

void Matmul::runBlock(const Part &range, ptrdiff_t origin, const MatmulArgs &args, float *scratch) const noexcept {
  int64_t batch = range.batch;
  ptrdiff_t aOffset = 0, bOffset = 0, cOffset = 0, biasOffset = 0;
  for (int i = kMaxBatchRank - 1; i >= 0; --i) {
    const int64_t at = batch % shape_.batch[static_cast<size_t>(i)];
    batch /= shape_.batch[static_cast<size_t>(i)];
    aOffset += at * args.aBatchStride[static_cast<size_t>(i)];
    bOffset += at * args.bBatchStride[static_cast<size_t>(i)];
    cOffset += at * args.cBatchStride[static_cast<size_t>(i)];
    biasOffset += at * args.biasBatchStride[static_cast<size_t>(i)];
  }
  cOffset -= origin;
  Block block{};
  block.cOffset = cOffset;
  block.biasOffset = biasOffset;
  if (hasHalves())
    block.aHalves = args.aHalves + aOffset, block.bHalves = args.bHalves + bOffset;
  else
    block.a = args.a + aOffset, block.b = args.b + bOffset;
  block.c = static_cast<float *>(args.c) + cOffset;
  block.firstTile = range.firstTile, block.endTile = range.endTile;
  block.firstPanel = range.firstPanel, block.endPanel = range.endPanel;
  if (isDot()) return runDot(block, args, scratch);
  if (args.update && isOuterUpdate(args)) return runOuterUpdate(block, args);
  block.partial = scratch;
  block.packedA = scratch + partialFloats_ + packedBFloats_;
  const int64_t pass = takesOnePass(args) ? shape_.k : kBlock_;
  do {
    block.endK = std::min(shape_.k, block.firstK + pass);
    block.panels = panelSource(block, args, scratch + partialFloats_, block.kStride, block.panelStride);
    static constexpr BlockOffset kOrigin{};
    RowTile t{block.firstTile, firstRow(block.firstTile), firstRow(block.firstTile + 1), 0, {}, {}, {}};
    t.tile.blocks = &kOrigin, t.tile.blockCount = 1;
    t.tile.k = block.endK - block.firstK;
    t.tile.bStride = block.kStride, t.tile.bPanelStride = block.panelStride;
    for (; t.index < block.endTile; ++t.index, t.row = t.end, t.end = t.nextEnd) {
      t.nextEnd = t.index + 1 < block.endTile ? firstRow(t.index + 2) : t.end;  // a division
      runTileRow(block, args, t);
    }
    block.firstK = block.endK;
  } while (block.firstK < shape_.k);
}

}  // namespace popart::cpu
