// Matrix products on the register-tile kernels: C = epilogue(A . B), or W = update(W, A . B), with batch dimensions. A
// and B are float32, FLOAT16 or BFLOAT16; sums are float32, and C what its epilogue says. BFLOAT16 is multiplied as it
// is where the processor does that, two k at a time; other 16-bit operands become floats where they are packed, and
// give the bits of the product of these floats.
//
// A Matmul is a plan made once from shapes; run(task) then does a share of the work on pointers, without allocation.
// Tasks write disjoint parts of C and may run in any order and on any thread. Invariant: each element of C is one
// ascending-k chain of multiply-adds from zero (of BFLOAT16: two k at a time), then the epilogue; the plan, the number
// of threads and the layout of A and B never change a bit.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"
#include "backends/cpu/kernels/small_batch.hpp"

namespace popart::cpu {

// Memory layout of B (K x N). kStrided: element (k, n) at b[k * bRowStride + n * bColStride]. kPacked: panels as
// packPanels makes them. kPackedTransposed: b is the packed (N x K) matrix and the product uses its transpose.
// kComputed: B is what a PanelProgram computes.
enum class BLayout { kStrided, kPacked, kPackedTransposed, kComputed };

constexpr int kMaxBatchRank = 4;

struct MatmulShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  BLayout bLayout = BLayout::kStrided;
  std::array<int64_t, kMaxBatchRank> batch = {1, 1, 1, 1};
  DataType factors = DataType::FLOAT;  // element type of A and B: FLOAT, FLOAT16 or BFLOAT16
  // An update of kElements on a parameter of ParameterLayout::kRows will follow: it gets rows of the length that a task
  // computes.
  bool updatesRows = false;
  // Rows of A are gathered from its columns. This only affects the sizes of tasks: copying rows takes longer.
  bool gathersRows = false;
  // A RowProgram computes the rows of A. Tasks are ranges of rows, if that does not leave threads without work.
  bool computesRows = false;
  int64_t passUnit = 1;  // passes over k begin at multiples of this divisor of 16
};

// Computes the rows of A when a product copies them. Results are those of the program, in whatever parts the product
// requests them.
class RowProgram {
 public:
  static constexpr int64_t kMostElements = 512;
  // Writes elements [k, k + count) of the rows [row, row + rows) to rows `stride` apart; count <= kMostElements.
  virtual void run(int64_t row, int64_t rows, int64_t k, int64_t count, float *to, ptrdiff_t stride) noexcept = 0;

 protected:
  ~RowProgram() = default;
};

// Computes panels of B when a product packs them.
class PanelProgram {
 public:
  // Writes rows [k, k + count) of panel `panel` in order.
  virtual void run(int64_t panel, int64_t k, int64_t count, float *to) const noexcept = 0;

 protected:
  ~PanelProgram() = default;
};

// Strides are in elements; a batch stride of zero repeats the operand. C columns are contiguous.
struct MatmulArgs {
  const float *a = nullptr;
  const uint16_t *aHalves = nullptr;  // 16-bit factors: replace a and b
  const uint16_t *bHalves = nullptr;
  ptrdiff_t aRowStride = 0;
  ptrdiff_t aColStride = 1;
  const float *b = nullptr;
  ptrdiff_t bRowStride = 0;  // kStrided only
  ptrdiff_t bColStride = 1;  // kStrided only
  void *c = nullptr;         // elements of the type of the epilogue or of the update
  ptrdiff_t cRowStride = 0;
  std::array<ptrdiff_t, kMaxBatchRank> aBatchStride = {0, 0, 0, 0};
  std::array<ptrdiff_t, kMaxBatchRank> bBatchStride = {0, 0, 0, 0};
  std::array<ptrdiff_t, kMaxBatchRank> cBatchStride = {0, 0, 0, 0};
  RowProgram *rows = nullptr;  // computes the rows of A; `a` is its first operand. Only for products without a batch
  const PanelProgram *panels = nullptr;  // kComputed only; for products without a batch
  Epilogue epilogue;                     // its matrices advance with cBatchStride
  std::array<ptrdiff_t, kMaxBatchRank> biasBatchStride = {0, 0, 0, 0};
  // If set, c is a parameter and receives update(c, A . B) instead of the epilogue's results. Its layout is packed (M x
  // N), which does not use cRowStride, or rows cRowStride apart.
  const Update *update = nullptr;
  enum class ParameterLayout { kPacked, kRows } parameterLayout = ParameterLayout::kPacked;
};

class Matmul {
 public:
  // `threads` only determines the sizes of tasks. Any dimension may be zero; K = 0 gives sums of zero, to which the
  // epilogue is applied.
  Matmul(const MatmulShape &shape, int threads);

  int tasks() const { return tasks_; }
  // The fraction of all multiply-adds that a task does.
  double share(int task) const noexcept;
  // Floats of scratch memory that each running task needs, aligned as float (64 bytes is fastest).
  size_t scratchFloats() const { return scratchFloats_; }
  // Runs one task of [0, tasks()).
  void run(int task, const MatmulArgs &args, float *scratch) const noexcept;

  // A part of one matrix: the rows of some tiles, the columns of some panels.
  struct Part {
    int64_t batch = 0, firstTile = 0, endTile = 0, firstPanel = 0, endPanel = 0;
  };
  int64_t rowTiles() const { return rowTiles_.count(); }
  // Whether no row of A is copied by two tasks.
  bool copiesRowsOnce() const { return colTasks_ <= 1; }
  int64_t firstRow(int64_t tile) const { return rowTiles_.begin(tile); }
  int64_t panels() const { return panels_; }
  int64_t panelWidth() const { return kernels_->panelWidth; }
  // Runs a part of any size in blocks as large as a task's. The part's first element is written to args.c, with row
  // stride cRowStride; the epilogue's matrices also begin at the part's first element. For products without an update.
  void runPart(const Part &part, const MatmulArgs &args, float *scratch) const noexcept;

 private:
  static constexpr int64_t kLongestPass = 384;  // k per pass: a tile of A rows stays in the first level cache
  // One cache line more, so that rows map to different cache sets.
  static constexpr ptrdiff_t kRowCopyStride = kLongestPass + 16;
  static constexpr int64_t kFewRows = 3;
  struct Block;
  struct RowTile;
  struct TaskOrder;
  Part partOf(int task) const noexcept;
  // `origin`: offset in C of the element at args.c.
  void runBlock(const Part &part, ptrdiff_t origin, const MatmulArgs &args, float *scratch) const noexcept;
  int64_t batches() const { return shape_.batch[0] * shape_.batch[1] * shape_.batch[2] * shape_.batch[3]; }
  void planBlocks(int threads);
  void halveBlocks(int threads);
  void balanceBlocks(int threads, int64_t mostTiles, int64_t mostPanels);
  // Panels per call, for ranges of tasks. With one row tile, loading B limits the speed: equal tasks count more than
  // the kernel's width.
  int64_t panelsTogether() const { return rowTiles_.count() > 1 ? rowTiles_.panelsTogether() : 1; }
  TaskOrder orderOf(int64_t rowTasks, int64_t colTasks) const;
  double tileCost() const;
  double elapsed(int64_t rowTasks, int64_t colTasks, int threads) const;
  const float *panelSource(const Block &block, const MatmulArgs &args, float *packed, ptrdiff_t &kStride,
                           ptrdiff_t &panelStride) const noexcept;
  void packHalves(const Block &block, const MatmulArgs &args, float *packed) const noexcept;
  void packHalfPanel(const uint16_t *source, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols, int width,
                     float *panel) const noexcept;
  AMode widenedSource(const Block &block, const MatmulArgs &args, int64_t row, int rows, TileArgs &tile) const noexcept;
  AMode pairSource(const Block &block, const MatmulArgs &args, int64_t row, int rows, TileArgs &tile) const noexcept;
  AMode rowSource(const Block &block, const MatmulArgs &args, int64_t row, int rows, TileArgs &tile) const noexcept;
  void askForRows(const Block &block, const MatmulArgs &args, const TileArgs &tile, RowTile &rowTile) const noexcept;
  void lookAhead(const Block &block, const MatmulArgs &args, int64_t row, int rows, int64_t panel,
                 TileArgs &tile) const noexcept;
  void lookAheadInB(const Block &block, int64_t rowTile, int64_t panel, const MicroKernels::Choice &kernel,
                    TileArgs &tile) const noexcept;
  bool takesOnePass(const MatmulArgs &args) const noexcept;
  float *partialRow(const Block &block, int64_t row) const noexcept;
  void runTileRow(const Block &block, const MatmulArgs &args, RowTile &rowTile) const noexcept;
  bool hasHalves() const noexcept { return isHalf(shape_.factors); }
  bool hasPairs() const noexcept { return shape_.factors == DataType::BFLOAT16 && bfloat16Kernels(); }
  bool packsB() const noexcept { return hasHalves() || shape_.bLayout != BLayout::kPacked; }
  // Whether operands are copied. Products of few steps copy nothing, because they may be updates by outer products;
  // their threads find the parameter in their caches if each thread has its own panels, as in other products with the
  // parameter.
  bool copiesOperands() const noexcept { return packsB() && depth_ > kMaxOuterDepth; }
  bool isDot() const noexcept;
  bool isOuterUpdate(const MatmulArgs &args) const noexcept;
  void runDot(const Block &block, const MatmulArgs &args, float *scratch) const noexcept;
  void runOuterUpdate(const Block &block, const MatmulArgs &args) const noexcept;
  float *panelAt(const Block &block, int64_t row, int64_t col) const noexcept;
  void askForResults(const Block &block, const MatmulArgs &args, RowTile &rowTile) const noexcept;
  void prefetchEnd(const Block &block, const MatmulArgs &args, const void *asked, int64_t row, int rows, int64_t col,
                   int64_t cols) const noexcept;
  void emit(const Block &block, const MatmulArgs &args, const float *sums, ptrdiff_t stride, int64_t row, int rows,
            int64_t col, int64_t cols) const noexcept;

  MatmulShape shape_;                      // its k counts steps of the kernels: elements, or pairs
  const MicroKernels *kernels_ = nullptr;  // for the element type of the factors
  int64_t depth_ = 0;                      // elements of k
  int64_t panels_ = 0;                     // ceil(n / panelWidth)
  RowTiles rowTiles_;
  bool takesOnePanel_ = false;  // whether each call of a kernel takes only one panel
  int64_t kBlock_ = 0;          // k per pass
  int64_t panelsPerTask_ = 0;   // column panels per task
  int64_t tilesPerTask_ = 0;    // row tiles per task
  int64_t rowTasks_ = 0;
  int64_t colTasks_ = 0;
  bool readsBOnce_ = false;     // packed B of floats: one task reads each panel, for all rows
  bool outgrowsCache_ = false;  // whether C is larger than its share of the cache
  int tasks_ = 0;
  size_t partialFloats_ = 0;  // scratch memory: partial sums between k passes, then packed B, then a packed A tile
  size_t packedBFloats_ = 0;
  size_t scratchFloats_ = 0;
};

}  // namespace popart::cpu
