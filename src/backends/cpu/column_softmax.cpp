// The axis runs along the columns of matrices: a slice of the tensor is a matrix with `inner` columns. There are three
// passes over it: values that need all rows (maxima of x, or dy at the largest y), sums over the rows, the result.
//
// Tasks are whole slices or ranges of columns, and do all passes in their core's cache. If rows would then be split
// into short pieces, whose neighbours belong to different threads, tasks are ranges of rows instead, and the passes are
// rounds: cores then write disjoint memory and do not prefetch memory that another core writes. Between the passes, the
// values that were found for the ranges are joined, in separate rounds.
//
//   ranges of columns:  0 1 2 3      ranges of rows:  0 0 0 0
//                       0 1 2 3                       1 1 1 1
//
// Invariant: sums are over blocks of rows, which depend only on the shape, and are added in ascending order.
#include "backends/cpu/column_softmax.hpp"

#include <algorithm>

#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/softmax_columns.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/reduce_ops.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;

constexpr int64_t kStepColumns = 16;   // ranges of columns are multiples of a cache line
constexpr int64_t kJoinColumns = 256;  // columns of a task that joins

enum ColumnStep : size_t { kFirst, kJoinFirst, kSum, kJoinSums, kResult, kColumnSteps };

// The operands of one step: some rows of neighbouring columns of one slice.
struct ColumnPart {
  int64_t at, columns;           // offset of the slice's first row of these columns in the tensor; number of columns
  int64_t firstBlock, endBlock;  // range of blocks of rows
  int64_t group, groups;         // number of this range of rows, and of all ranges
  // Row length of the values that are found for columns.
  int64_t width;
  float *firsts;  // two rows for each range of rows
  float *sums;    // one row for each block
  float *shift, *total;

  float *first() const { return firsts + 2 * group * width; }
};

class ColumnKernel : public executable::HostKernel {
 public:
  // `operands`: number of arrays of the tensor's size that stay in the cache from the first pass to the last. `begin`:
  // the first step of the kernel.
  ColumnKernel(const AxisSizes &sizes, int64_t operands, ColumnStep begin, int threads) : sizes_(sizes), begin_(begin) {
    constexpr int64_t kBlockElements = 1 << 14, kLeastRows = 16, kMostBlocks = 64;
    const int64_t wanted = std::clamp<int64_t>(sizes.length * sizes.inner / kBlockElements, 1, kMostBlocks);
    rowsPerBlock_ = std::max(ceilDiv(sizes.length, wanted), std::min(kLeastRows, sizes.length));
    blocks_ = ceilDiv(sizes.length, rowsPerBlock_);
    groups_ = std::min(blocks_, ceilDiv(int64_t{4} * threads, sizes.outer));
    if (cutsRows(threads))
      addRounds();
    else
      cutColumns(operands, threads);
  }
  int tasks() const override {
    return isCutInRows() ? rounds_.tasks() : static_cast<int>(ceilDiv(sizes_.outer, outerPerTask_) * columnTasks_);
  }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return isCutInRows() ? rounds_.share(task) : 1.0 / tasks(); }
  int64_t scratchBytes() const override { return isCutInRows() ? 0 : bytesFound(std::min(columns_, sizes_.inner), 1); }
  int64_t sharedBytes() const override { return isCutInRows() ? sizes_.outer * bytesFound(sizes_.inner, groups_) : 0; }
  bool canOverwrite(int input, int) const override { return input == 0; }

  void run(const KernelArgs &args, int task) const noexcept override {
    if (isCutInRows()) return runRound(args, rounds_.place(task));
    const int64_t column = task % columnTasks_ * columns_, count = std::min(columns_, sizes_.inner - column);
    const int64_t first = task / columnTasks_ * outerPerTask_, last = std::min(first + outerPerTask_, sizes_.outer);
    for (int64_t outer = first; outer < last; ++outer)
      for (size_t number = begin_; number < kColumnSteps; ++number)
        step(number, args, partOf(outer, column, count, 1, count, static_cast<float *>(args.scratch)));
  }

 protected:
  virtual void step(size_t number, const KernelArgs &args, const ColumnPart &part) const noexcept = 0;

  // Rows of blocks, and their offset.
  struct Rows {
    int64_t at;
    ColumnBlock block;
  };
  Rows rowsOf(const ColumnPart &part, int64_t firstBlock, int64_t endBlock) const {
    const int64_t first = firstBlock * rowsPerBlock_, end = std::min(endBlock * rowsPerBlock_, sizes_.length);
    return {part.at + first * sizes_.inner, {sizes_.inner, end - first, part.columns}};
  }
  Rows rowsOf(const ColumnPart &part) const { return rowsOf(part, part.firstBlock, part.endBlock); }
  // Calls sum(rows, target) for each block of the part.
  template <class Sum>
  void sumBlocks(const ColumnPart &part, const Sum &sum) const {
    for (int64_t b = part.firstBlock; b < part.endBlock; ++b) sum(rowsOf(part, b, b + 1), part.sums + b * part.width);
  }
  void joinSums(const ColumnPart &part) const {
    reduceColumns(ReduceOp::kSum, part.sums, part.width, blocks_, part.columns, part.total);
  }

 private:
  bool isCutInRows() const { return rounds_.tasks() > 0; }
  // If slices do not keep all threads busy, and a thread's part of a row would be short.
  bool cutsRows(int threads) const {
    constexpr int64_t kLongPiece = 2048;
    return threads > 1 && groups_ > 1 && sizes_.outer % threads != 0 && sizes_.inner < kLongPiece * threads;
  }
  void addRounds() {
    for (size_t number = begin_; number < kColumnSteps; ++number) {
      const bool joins = number == kJoinFirst || number == kJoinSums;
      rounds_.add(sizes_.outer * (joins ? ceilDiv(sizes_.inner, kJoinColumns) : groups_),
                  static_cast<double>(joins ? blocks_ : sizes_.length));
    }
  }
  // Chooses ranges of columns that stay in the second level cache. If even narrow ones do not, it chooses wide ones, so
  // that each row of a range covers few pages.
  void cutColumns(int64_t operands, int threads) {
    constexpr int64_t kElements = 1 << 17, kLeastElements = 1 << 13, kNarrow = 64, kWide = 1024;
    const int64_t fitting = kElements / operands / sizes_.length,
                  widest = fitting < kNarrow ? kWide : std::min(fitting, kWide),
                  forThreads =
                      columnRanges(sizes_.inner, sizes_.outer, std::min<int64_t>(widest, 256), kStepColumns, threads),
                  ranges = std::max(ceilDiv(sizes_.inner, widest), threads == 1 ? 1 : forThreads);
    columns_ = ceilDiv(ceilDiv(sizes_.inner, ranges), kStepColumns) * kStepColumns;
    columnTasks_ = ceilDiv(sizes_.inner, columns_);
    outerPerTask_ = std::max<int64_t>(1, kLeastElements / (sizes_.length * std::min(columns_, sizes_.inner)));
  }

  // Bytes of the values that are found for the columns of one slice.
  int64_t bytesFound(int64_t width, int64_t groups) const {
    return (2 * groups + blocks_ + 2) * width * static_cast<int64_t>(sizeof(float));
  }
  // All rows of some columns of one slice. `found`: bytesFound() bytes, for columns from `column` on.
  ColumnPart partOf(int64_t outer, int64_t column, int64_t columns, int64_t groups, int64_t width, float *found) const {
    float *sums = found + 2 * groups * width, *shift = sums + blocks_ * width;
    const int64_t at = outer * sizes_.length * sizes_.inner + column;
    return {at, columns, 0, blocks_, 0, groups, width, found, sums, shift, shift + width};
  }
  void runRound(const KernelArgs &args, Rounds::Place place) const noexcept {
    const size_t number = begin_ + place.round;
    const int64_t perSlice = rounds_.size(place.round) / sizes_.outer, outer = place.task / perSlice,
                  within = place.task % perSlice, width = sizes_.inner;
    auto *found =
        static_cast<float *>(args.shared) + outer * bytesFound(width, groups_) / static_cast<int64_t>(sizeof(float));
    if (number == kJoinFirst || number == kJoinSums) {
      const int64_t column = within * kJoinColumns, count = std::min(kJoinColumns, width - column);
      ColumnPart part = partOf(outer, 0, width, groups_, width, found);
      part.columns = count;
      for (float **numbers : {&part.firsts, &part.sums, &part.shift, &part.total}) *numbers += column;
      return step(number, args, part);
    }
    ColumnPart part = partOf(outer, 0, width, groups_, width, found);
    part.group = within;
    part.firstBlock = blocks_ * within / groups_;
    part.endBlock = blocks_ * (within + 1) / groups_;
    step(number, args, part);
  }

  AxisSizes sizes_;
  size_t begin_;
  int64_t rowsPerBlock_, blocks_, groups_;
  Rounds rounds_;  // if tasks are ranges of rows
  // Otherwise: columns per task, tasks per slice, slices per task.
  int64_t columns_ = 0, columnTasks_ = 0, outerPerTask_ = 1;
};

class ColumnSoftmaxKernel final : public ColumnKernel {
 public:
  ColumnSoftmaxKernel(SoftmaxForm form, const AxisSizes &sizes, int threads)
      : ColumnKernel(sizes, 2, kFirst, threads), form_(form) {}
  std::string name() const override { return "softmax of columns"; }

 protected:
  void step(size_t number, const KernelArgs &args, const ColumnPart &part) const noexcept override {
    const auto *x = static_cast<const float *>(args.in[0]);
    auto *y = static_cast<float *>(args.out[0]);
    const auto [at, block] = rowsOf(part);
    switch (number) {
      case kFirst:
        return reduceColumns(ReduceOp::kMax, x + at, block.stride, block.rows, block.columns, part.first());
      case kJoinFirst:
        return reduceColumns(ReduceOp::kMax, part.firsts, 2 * part.width, part.groups, part.columns, part.shift);
      case kSum:
        return sumBlocks(part, [&](const Rows &rows, float *sums) {
          softmaxColumnSums(form_, rows.block, x + rows.at, y + rows.at, part.shift, sums);
        });
      case kJoinSums:
        joinSums(part);
        return softmaxColumnScales(form_, part.columns, part.total);
      default:
        softmaxColumnEnd(form_, block, x + at, y + at, part.shift, part.total);
    }
  }

 private:
  SoftmaxForm form_;
};

class ColumnSoftmaxGradientKernel final : public ColumnKernel {
 public:
  ColumnSoftmaxGradientKernel(SoftmaxForm form, const AxisSizes &sizes, int threads)
      : ColumnKernel(sizes, 3, form == SoftmaxForm::kProbability ? kFirst : kSum, threads), form_(form) {}
  std::string name() const override { return "softmax gradient of columns"; }

 protected:
  void step(size_t number, const KernelArgs &args, const ColumnPart &part) const noexcept override {
    const auto *dy = static_cast<const float *>(args.in[0]), *y = static_cast<const float *>(args.in[1]);
    const auto [at, block] = rowsOf(part);
    switch (number) {
      case kFirst:
        return largestOfColumns(block, y + at, dy + at, part.first(), part.first() + part.width);
      case kJoinFirst:  // the largest y are stored in the memory of the later sums
        return largestOfColumns({2 * part.width, part.groups, part.columns}, part.firsts, part.firsts + part.width,
                                part.total, part.shift);
      case kSum:
        return sumBlocks(part, [&](const Rows &rows, float *sums) {
          if (form_ == SoftmaxForm::kProbability)
            return softmaxColumnDots(rows.block, y + rows.at, dy + rows.at, part.shift, sums);
          reduceColumns(ReduceOp::kSum, dy + rows.at, rows.block.stride, rows.block.rows, rows.block.columns, sums);
        });
      case kJoinSums:
        return joinSums(part);
      default:
        softmaxColumnGradient(form_, block, y + at, dy + at, static_cast<float *>(args.out[0]) + at, part.shift,
                              part.total);
    }
  }

 private:
  SoftmaxForm form_;
};

}  // namespace

std::unique_ptr<executable::Kernel> columnSoftmax(SoftmaxForm form, const AxisSizes &sizes, int threads) {
  return std::make_unique<ColumnSoftmaxKernel>(form, sizes, threads);
}

std::unique_ptr<executable::Kernel> columnSoftmaxGradient(SoftmaxForm form, const AxisSizes &sizes, int threads) {
  return std::make_unique<ColumnSoftmaxGradientKernel>(form, sizes, threads);
}

}  // namespace popart::cpu
