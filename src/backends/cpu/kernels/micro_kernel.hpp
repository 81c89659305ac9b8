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

// What a tile does with its finished sums before it stores them, in registers: adds a row, adds a matrix, bounds the
// result (comparisons as those of Relu and Clip). Absent parts (nullptr, infinite bounds) are not computed.
struct TileEnd {
  const float *bias = nullptr;      // readable over the tile's width
  const float *residual = nullptr;  // rows residualStride apart, readable over the tile's width; may be `out`
  ptrdiff_t residualStride = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  bool hasLow() const { return low > -std::numeric_limits<float>::infinity(); }
  bool hasHigh() const { return high < std::numeric_limits<float>::infinity(); }
  bool isUsed() const { return bias || residual || hasLow() || hasHigh(); }
  // That of the tile which begins `elements` elements of the matrix and `columns` columns behind this one.
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
  ptrdiff_t aStride = 0;  // between rows in the row modes, between k in the panel modes; the other stride: see AMode
  const float *b = nullptr;
  ptrdiff_t bStride = 0;       // between k; n is contiguous and fully readable over the tile's width
  ptrdiff_t bPanelStride = 0;  // between neighbouring panels, for tiles more than one panel wide
  const BlockOffset *blocks = nullptr;
  int64_t blockCount = 0;
  int64_t k = 0;
  const float *in = nullptr;  // nullptr starts from zero
  ptrdiff_t inStride = 0;
  float *out = nullptr;  // rows outStride apart, panels side by side; written over the full width of the tile
  ptrdiff_t outStride = 0;
  TileEnd end;  // not in the lane modes
  // Software prefetch of a later tile, whose accesses hardware prefetchers do not predict: every kStepsPerLine steps of
  // k prefetch the line at the next multiple of aheadStride. nullptr: none.
  const float *ahead = nullptr;
  ptrdiff_t aheadStride = 0;
  ptrdiff_t aheadPartStride = 0;  // from what one register tile of a call prefetches to what the next one does
  // The same twice in every stride, an even number of floats. Not in the lane modes.
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
// Floats that one call of a kernel writes, at most.
constexpr int kMaxTileFloats = kMaxTileRows * 2 * kMaxPanelWidth;

// A register tile reads a number of A for each row and a vector of B for each vector of columns, and multiplies as
// often as rows times vectors. So the nearly square ones read least: 6 rows x 4 vectors, 8 rows x 3 vectors. The
// kernels for several panels consist of such register tiles, one after another; those of one panel, for narrow products
// and last panels, are one register tile of up to tileRows rows.
struct MicroKernels {
  const char *instructionSet = "";       // Highway's name of it
  int panelWidth = 0;                    // floats per panel of packed B: two vectors
  int tileRows = 0;                      // most rows of a tile
  int wideRows = 0;                      // most rows of the register tiles of two panels; 0: there are none
  using PerRows = TileFn[kMaxTileRows];  // [rows - 1]
  PerRows full[kAModes];                 // [mode], one panel wide
  PerRows narrow[kAModes];               // the same half a panel wide
  PerRows wide[2];                       // AMode::kRows and kPanel, widePanels[rows - 1] panels
  int widePanels[kMaxTileRows];          // 1 where nothing is gained
  int wideParts[kMaxTileRows];           // register tiles in them

  // The kernel for `columns` wanted columns from some panel on: their first `panels` panels, or half of the last one.
  struct Choice {
    TileFn run;
    int panels;  // covered
    int width;   // floats of a row that are read and written
    int parts;   // register tiles, one after another
  };
  Choice choose(AMode mode, int tileRows, int64_t columns) const;
};

// The table for the best instruction set of this processor among those compiled in. Constant for the process.
const MicroKernels &microKernels();

// The same for pairs of BFLOAT16 where this processor multiplies them (x86: AVX512_BF16), else null. A lane of A and B
// holds two numbers, those of k = 2i and 2i + 1; both products are added to the lane's FLOAT sum. Panels and tiles have
// the sizes of microKernels(). The instruction takes subnormal numbers, and gives subnormal sums, as zeros.
const MicroKernels *bfloat16Kernels();

// Time of a panel by kernels of one panel, relative to those of several (decision 0090).
constexpr double kOnePanelCost = 1.15;

// The rows of a product with so many columns, as ranges for one call of a kernel each: whole register tiles, all of
// nearly the same size.
class RowTiles {
 public:
  RowTiles() = default;
  RowTiles(int64_t rows, int64_t columns);
  static RowTiles ofOne(int64_t rows);  // all rows in one range
  int64_t count() const { return count_; }
  // How many of these tiles have as many rows as `tiles` tiles of tileRows rows, rounded up.
  int64_t sameRows(int64_t tiles) const;
  // Panels that one call of the kernel covers.
  int64_t panelsTogether() const { return panels_; }
  // Row at which a tile begins; that of tile count() is the number of rows.
  int64_t begin(int64_t tile) const { return count_ == 0 ? 0 : rows_ * (parts_ * tile / count_) / parts_; }

 private:
  int64_t rows_ = 0, count_ = 0, parts_ = 0;  // parts: ranges of rows of a register tile
  int64_t most_ = 1, panels_ = 1;             // rows of a tile; panels of a call
};

// The panels of a product as ranges for tasks, all of nearly the same size: of as many panels as kernels cover, if that
// leaves a part for each range.
class PanelRanges {
 public:
  PanelRanges(int64_t panels, int64_t ranges, int64_t together)
      : panels_(panels),
        count_(ranges),
        keeps_((panels + together - 1) / together >= ranges),
        together_(keeps_ ? together : 1) {}
  // Whether ranges have as many panels as kernels cover.
  bool keepsTogether() const { return keeps_; }
  int64_t count() const { return count_; }
  int64_t begin(int64_t range) const { return std::min(panels_, together_ * (groups() * range / count_)); }
  // No range has more panels; the one with the last panel may have fewer.
  int64_t longest() const { return std::min(panels_, together_ * ((groups() + count_ - 1) / count_)); }
  // But for the last panels of the last range.
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
