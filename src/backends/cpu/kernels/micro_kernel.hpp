// The table of register-tile kernels of the running instruction set; the drivers (gemm, conv) are loops around its
// entries.
//
// Invariant: every output element is one chain of multiply-adds in ascending (block, k) order that starts from zero or
// from the given partial sum. The tile shape, and so any partition of the work, never changes a bit of the result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace popart::cpu {

// Offsets, in elements, of one pair of A and B blocks in a batch-reduce product.
struct BlockOffset {
  ptrdiff_t a = 0;
  ptrdiff_t b = 0;
};

// The epilogue that a tile applies to finished sums in registers before it stores them: adds a row, adds a matrix,
// bounds the result (comparisons like those of Relu and Clip). Absent parts (nullptr, infinite bounds) are not
// computed.
struct TileEnd {
  const float *bias = nullptr;  // readable over the whole width of the tile
  // Rows residualStride apart, readable over the whole width of the tile; may be `out`.
  const float *residual = nullptr;
  ptrdiff_t residualStride = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  bool hasLow() const { return low > -std::numeric_limits<float>::infinity(); }
  bool hasHigh() const { return high < std::numeric_limits<float>::infinity(); }
  bool isUsed() const { return bias || residual || hasLow() || hasHigh(); }
  // The end of a tile that begins `elements` elements of the matrix and `columns` columns after this one.
  TileEnd at(ptrdiff_t elements, int64_t columns) const {
    TileEnd end = *this;
    if (bias) end.bias += columns;
    if (residual) end.residual += elements;
    return end;
  }
};

// out[m, n] = end(in[m, n] + sum over blocks r, then k, of A[r][m, k] * B[r][k, n])
struct TileArgs {
  const float *a = nullptr;
  ptrdiff_t aStride = 0;  // between rows in the row modes, between k in the panel modes; see AMode for the other stride
  const float *b = nullptr;
  ptrdiff_t bStride = 0;       // between k; n is contiguous and readable over the whole width of the tile
  ptrdiff_t bPanelStride = 0;  // between neighbouring panels, for tiles wider than one panel
  const BlockOffset *blocks = nullptr;
  int64_t blockCount = 0;
  int64_t k = 0;
  const float *in = nullptr;  // nullptr starts from zero
  ptrdiff_t inStride = 0;
  float *out = nullptr;  // rows outStride apart, panels contiguous; written over the whole width of the tile
  ptrdiff_t outStride = 0;
  TileEnd end;  // not used in the lane modes
  // Software prefetch for a later tile, whose accesses hardware prefetchers do not predict: after every kStepsPerLine
  // steps of k, the line at the next multiple of aheadStride. nullptr: none.
  const float *ahead = nullptr;
  ptrdiff_t aheadStride = 0;
  // Distance between the memory that one register tile of a call prefetches and that of the next.
  ptrdiff_t aheadPartStride = 0;
  // Like `ahead`, but two lines per stride, which is an even number of floats. Not in the lane modes.
  const float *next = nullptr;
  ptrdiff_t nextStride = 0;
};
constexpr int kStepsPerLine = 4;
using TileFn = void (*)(const TileArgs &);

// kRows: A is read as a[m * aStride + k]. kPanel: as a[k * aStride + m].
// In the lane modes A has a value for every column, in panels of W = panelWidth floats (A[m, k, n]), and a product is
// taken lane by lane: kLaneRows reads it as a[m * aStride + k * W + n], kLanePanel as a[k * aStride + m * W + n].
enum class AMode { kRows, kPanel, kLaneRows, kLanePanel };
constexpr int kAModes = 4;

constexpr int kMaxTileRows = 14;
constexpr int kMaxPanelWidth = 32;
constexpr int kMaxTilePanels = 4;
// Largest number of floats that one call of a kernel writes.
constexpr int kMaxTileFloats = kMaxTileRows * 2 * kMaxPanelWidth;

// A register tile reads one number of A per row and one vector of B per vector of columns, and multiplies rows times
// vectors times. So nearly square tiles read least: 6 rows x 4 vectors, 8 rows x 3 vectors. Kernels for several panels
// consist of such register tiles, one after another. Kernels for one panel, used for narrow products and last panels,
// are one register tile of up to tileRows rows.
struct MicroKernels {
  const char *instructionSet = "";       // Highway's name of the set
  int panelWidth = 0;                    // floats per panel of packed B: two vectors
  int tileRows = 0;                      // largest number of rows of a tile
  int wideRows = 0;                      // largest number of rows of register tiles with two panels; 0: there are none
  using PerRows = TileFn[kMaxTileRows];  // [rows - 1]
  PerRows full[kAModes];                 // [mode], one panel wide
  PerRows narrow[kAModes];               // the same half a panel wide
  PerRows wide[2];                       // AMode::kRows and kPanel, widePanels[rows - 1] panels
  int widePanels[kMaxTileRows];          // 1 if more panels gain nothing
  int wideParts[kMaxTileRows];           // number of register tiles in them

  // The kernel for the first of `columns` columns from a panel on: it computes `panels` panels, or half of the last
  // one.
  struct Choice {
    TileFn run;
    int panels;  // number of panels computed
    int width;   // floats of a row that are read and written
    int parts;   // register tiles, one after another
  };
  Choice choose(AMode mode, int tileRows, int64_t columns) const;
};

// The table for the best compiled instruction set that this processor has. Constant for the process.
const MicroKernels &microKernels();

// The same for pairs of BFLOAT16 if this processor multiplies them (x86: AVX512_BF16), else null. A lane of A and B
// contains two numbers, those of k = 2i and 2i + 1; both products are added to the lane's FLOAT sum. Panels and tiles
// have the sizes of microKernels(). The instruction treats subnormal numbers as zeros, and returns subnormal sums as
// zeros.
const MicroKernels *bfloat16Kernels();

// Time of a panel by kernels of one panel, relative to those of several (decision 0090).
constexpr double kOnePanelCost = 1.15;

// Splits the rows of a product with `columns` columns into ranges, one per call of a kernel: whole register tiles, all
// of nearly the same size.
class RowTiles {
 public:
  RowTiles() = default;
  RowTiles(int64_t rows, int64_t columns);
  static RowTiles ofOne(int64_t rows);  // all rows in one range
  int64_t count() const { return count_; }
  // The number of these tiles that have as many rows as `tiles` tiles of tileRows rows, rounded up.
  int64_t sameRows(int64_t tiles) const;
  // Panels per call of the kernel.
  int64_t panelsTogether() const { return panels_; }
  // First row of a tile; for tile count(), the number of rows.
  int64_t begin(int64_t tile) const { return count_ == 0 ? 0 : rows_ * (parts_ * tile / count_) / parts_; }

 private:
  int64_t rows_ = 0, count_ = 0, parts_ = 0;  // parts: ranges of rows of one register tile each
  int64_t most_ = 1, panels_ = 1;             // rows per tile; panels per call
};

// Splits the panels of a product into ranges for tasks, all of nearly the same size. They are multiples of the panels
// that kernels cover, if every range gets at least one.
class PanelRanges {
 public:
  PanelRanges(int64_t panels, int64_t ranges, int64_t together)
      : panels_(panels),
        count_(ranges),
        keeps_((panels + together - 1) / together >= ranges),
        together_(keeps_ ? together : 1) {}
  // Whether ranges are multiples of the panels that kernels cover.
  bool keepsTogether() const { return keeps_; }
  int64_t count() const { return count_; }
  int64_t begin(int64_t range) const { return std::min(panels_, together_ * (groups() * range / count_)); }
  // Panels of the longest range; the range with the last panel may have fewer.
  int64_t longest() const { return std::min(panels_, together_ * ((groups() + count_ - 1) / count_)); }
  // Whether all ranges have the same length, except for the last panels of the last range.
  bool areEqual() const { return groups() % count_ == 0; }
  // `panels` rounded up, at least 1.
  static int64_t rounded(int64_t panels, int64_t together) {
    return panels <= 1 ? 1 : (panels + together - 1) / together * together;
  }

 private:
  int64_t groups() const { return (panels_ + together_ - 1) / together_; }
  int64_t panels_, count_;
  bool keeps_;
  int64_t together_;
};

}  // namespace popart::cpu
