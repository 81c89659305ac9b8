// Reductions of tensors over any axes: FLOAT is read in place, 16-bit numbers are widened block by block. Neighbouring
// axes of one kind merge; the result is read as [outer][reduced][inner] blocks, and further reduced axes outside are
// combined block by block in order.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/reduce_blocks.hpp"
#include "backends/cpu/reduce_extremes.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/reduce_ops.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

enum class Finish : uint8_t { kNone, kMean, kRoot, kLog, kLogSumExp };
// Op: ReduceOp or DoubleReduceOp.
template <class Op>
struct ReduceRow {
  const char *type;
  Op op;
  Finish finish;
};
constexpr ReduceRow<ReduceOp> kReduceRows[] = {{"ReduceSum", ReduceOp::kSum, Finish::kNone},
                                               {"ReduceMean", ReduceOp::kSum, Finish::kMean},
                                               {"ReduceMax", ReduceOp::kMax, Finish::kNone},
                                               {"ReduceMin", ReduceOp::kMin, Finish::kNone},
                                               {"ReduceSumSquare", ReduceOp::kSumSquare, Finish::kNone},
                                               {"ReduceL1", ReduceOp::kSumAbs, Finish::kNone},
                                               {"ReduceL2", ReduceOp::kSumSquare, Finish::kRoot},
                                               {"ReduceLogSumExp", ReduceOp::kSumExp, Finish::kLogSumExp}};
// A product may leave the range of FLOAT temporarily, and a sum of which the logarithm is taken may exceed it.
constexpr ReduceRow<DoubleReduceOp> kDoubleRows[] = {{"ReduceProd", DoubleReduceOp::kProduct, Finish::kNone},
                                                     {"ReduceLogSum", DoubleReduceOp::kSum, Finish::kLog}};

template <class Op>
class ReduceKernel final : public executable::HostKernel {
 public:
  ReduceKernel(const ReduceRow<Op> &row, ReducedBlocks blocks, DataType type, int threads)
      : row_(row), blocks_(blocks), type_(type) {
    constexpr int64_t kPerTask = 32768;  // elements read per task
    chooseLeaves();
    chooseColumns(kPerTask, threads);
    const int64_t perOuter = blocks_.leading * blocks_.reduced * std::min(blocks_.inner, columnsPerTask_);
    outerPerTask_ = std::max<int64_t>(1, kPerTask / std::max<int64_t>(1, perOuter));
    if (leaves_ > 1) outerPerTask_ = 1;
    outerTasks_ = (blocks_.outer + outerPerTask_ - 1) / outerPerTask_;
    rounds_.add(std::max<int64_t>(1, outerTasks_ * columnTasks_ * leaves_), 1);
    if (leaves_ > 1) rounds_.add(outerTasks_ * columnTasks_, 0);
  }
  std::string name() const override { return blocks_.inner == 1 ? "reduce rows" : "reduce columns"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t scratchBytes() const override {
    return (isHalf(type_) ? 3 : 2) * columnsPerTask_ * static_cast<int64_t>(sizeof(Total)) +
           widenedFloats() * static_cast<int64_t>(sizeof(float));
  }
  // Whether it widens few elements at a time; FLOAT is read in place.
  bool takesLittleScratch() const { return widenedFloats() <= kMostWidened; }
  int64_t sharedBytes() const override {
    return leaves_ == 1 ? 0 : blocks_.outer * leaves_ * blocks_.inner * static_cast<int64_t>(sizeof(Total));
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    if (outerTasks_ * columnTasks_ == 0) return;
    if (leaves_ > 1) return runRound(args, rounds_.place(task));
    const int64_t column = task % columnTasks_ * columnsPerTask_,
                  columns = std::min(columnsPerTask_, blocks_.inner - column);
    const int64_t first = task / columnTasks_ * outerPerTask_, last = std::min(first + outerPerTask_, blocks_.outer);
    if (areRows()) return rows(args, first, last);
    for (int64_t o = first; o < last; ++o) {
      auto *scratch = static_cast<Total *>(args.scratch);
      if (isHalf(type_))
        oneOfHalves(args, o, column, columns, scratch);
      else
        one(static_cast<const float *>(args.in[0]), static_cast<float *>(args.out[0]) + o * blocks_.inner + column, o,
            column, columns, scratch);
    }
  }

 private:
  using Total = decltype(reduceIdentity(Op()));

  // Splits long sums into leaves if there are few results, so that there is work for many threads and no chain is long.
  // The number of leaves depends only on the shape.
  void chooseLeaves() {
    constexpr int64_t kPerLeaf = 65536, kLeastChain = 512;  // elements per leaf; elements of one result per leaf
    const int64_t units = blocks_.outer * ceilDiv(blocks_.inner, int64_t{64});
    if (units == 0 || units >= 64 || blocks_.leading > 1 || row_.finish == Finish::kLogSumExp) return;
    leaves_ = std::clamp<int64_t>(blocks_.reduced * blocks_.inner / kPerLeaf, 1,
                                  std::max<int64_t>(1, std::min(blocks_.reduced / kLeastChain, kMostTasks / units)));
  }
  // Chooses the columns of a task: no more tasks than the threads need, because long pieces of rows are read faster. A
  // task's scratch memory has the columns' totals and the widened elements.
  void chooseColumns(int64_t perTask, int threads) {
    constexpr int64_t kStep = 16;
    const int64_t most = isHalf(type_) ? kMostWidened / kRowsWidened : 4096;
    const int64_t reduced = blocks_.leading * blocks_.reduced, inner = blocks_.inner;
    const int64_t worth = std::max<int64_t>(1, reduced / leaves_ * inner / perTask);
    const int64_t ranges = std::min(worth, columnRanges(inner, blocks_.outer * leaves_, 256, kStep, threads));
    columnsPerTask_ = std::clamp<int64_t>(ceilDiv(ceilDiv(inner, ranges), kStep) * kStep, 1, inner == 1 ? 1 : most);
    columnTasks_ = ceilDiv(inner, columnsPerTask_);
  }

  // First the leaves' totals, then for each result their sum in order.
  void runRound(const KernelArgs &args, const Rounds::Place &place) const noexcept {
    const bool isLeaf = place.round == 0;
    const int64_t unit = isLeaf ? place.task / leaves_ : place.task, leaf = isLeaf ? place.task % leaves_ : 0;
    const int64_t outer = unit / columnTasks_, column = unit % columnTasks_ * columnsPerTask_,
                  columns = std::min(columnsPerTask_, blocks_.inner - column);
    Total *totals = static_cast<Total *>(args.shared) + (outer * leaves_ + leaf) * blocks_.inner + column;
    if (isLeaf) {
      const int64_t begin = blocks_.reduced * leaf / leaves_, count = blocks_.reduced * (leaf + 1) / leaves_ - begin;
      const int64_t at = (outer * blocks_.reduced + begin) * blocks_.inner + column;
      return reduce(args, at, count, columns, totals);
    }
    auto *sums = static_cast<Total *>(args.scratch);
    if constexpr (std::is_same_v<Op, ReduceOp>) {
      const bool isExtreme = row_.op == ReduceOp::kMax || row_.op == ReduceOp::kMin;
      reduceColumns(isExtreme ? row_.op : ReduceOp::kSum, totals, blocks_.inner, leaves_, columns, sums);
    } else {
      std::copy_n(totals, columns, sums);
      for (int64_t other = 1; other < leaves_; ++other)
        for (int64_t c = 0; c < columns; ++c)
          sums[c] = reduceCombine(row_.op, sums[c], totals[other * blocks_.inner + c]);
    }
    for (int64_t c = 0; c < columns; ++c)
      setNumberAt(args.out[0], outer * blocks_.inner + column + c, type_, static_cast<float>(finish(sums[c])));
  }

  // ---- 16 bits: blocks of rows become floats in scratch memory; sums are those of FLOAT

  static constexpr int64_t kRowsWidened = 128;  // the rows of a block of reduceColumns
  static constexpr int64_t kMostWidened = int64_t{1} << 18;
  int64_t widenedFloats() const {
    if (!isHalf(type_)) return 0;
    return blocks_.inner == 1 ? ceilDiv(blocks_.reduced, leaves_)
                              : std::min(kRowsWidened, blocks_.reduced) * columnsPerTask_;
  }
  // Totals of `rows` rows from element `at` of x on. `totals` must not be the third array of totals in scratch memory.
  void reduce(const KernelArgs &args, int64_t at, int64_t rows, int64_t columns, Total *totals) const noexcept {
    const int64_t inner = blocks_.inner;
    Total *part = static_cast<Total *>(args.scratch) + 2 * columnsPerTask_;
    auto *widened = reinterpret_cast<float *>(part + columnsPerTask_);
    if (inner == 1) {
      *totals = reduceRow(row_.op, floatsAt(args.in[0], at, rows, type_, widened), rows);
      return;
    }
    if (!isHalf(type_))
      return reduceColumns(row_.op, static_cast<const float *>(args.in[0]) + at, inner, rows, columns, totals);
    std::fill_n(totals, columns, reduceIdentity(row_.op));
    for (int64_t row = 0; row < rows; row += kRowsWidened) {
      const int64_t count = std::min(kRowsWidened, rows - row);
      widenRows(type_, static_cast<const uint16_t *>(args.in[0]) + at + row * inner, inner, columns,
                static_cast<int>(count), columns, widened);
      reduceColumns(row_.op, widened, columns, count, columns, part);
      for (int64_t c = 0; c < columns; ++c) totals[c] = reduceCombine(row_.op, totals[c], part[c]);
    }
  }

  void oneOfHalves(const KernelArgs &args, int64_t outer, int64_t column, int64_t columns,
                   Total *scratch) const noexcept {
    const ReducedBlocks &b = blocks_;
    Total *totals = scratch, *part = scratch + columnsPerTask_;
    std::fill_n(totals, columns, reduceIdentity(row_.op));
    for (int64_t l = 0; l < b.leading; ++l) {
      const int64_t at = (l * b.outer + outer) * b.reduced * b.inner + column;
      reduce(args, at, b.reduced, columns, b.leading == 1 ? totals : part);
      for (int64_t c = 0; c < columns && b.leading > 1; ++c) totals[c] = reduceCombine(row_.op, totals[c], part[c]);
    }
    for (int64_t c = 0; c < columns; ++c)
      setNumberAt(args.out[0], outer * b.inner + column + c, type_, static_cast<float>(finish(totals[c])));
  }

  // ---- FLOAT

  // Whether rows are contiguous and there is no shift: many short rows are one call.
  bool areRows() const {
    return blocks_.inner == 1 && blocks_.leading == 1 && !isHalf(type_) && row_.finish != Finish::kLogSumExp;
  }
  void rows(const KernelArgs &args, int64_t first, int64_t last) const noexcept {
    constexpr int64_t kAtOnce = 64;
    Total totals[kAtOnce];
    auto *y = static_cast<float *>(args.out[0]);
    for (int64_t o = first; o < last; o += kAtOnce) {
      const int64_t count = std::min(kAtOnce, last - o);
      reduceRows(row_.op, static_cast<const float *>(args.in[0]) + o * blocks_.reduced, count, blocks_.reduced, totals);
      for (int64_t i = 0; i < count; ++i) y[o + i] = static_cast<float>(finish(totals[i]));
    }
  }

  // Reduces columns [column, column + columns) of block `outer` to y; `scratch` has room for two totals per column.
  void one(const float *x, float *y, int64_t outer, int64_t column, int64_t columns, Total *scratch) const noexcept {
    Total *totals = scratch + columnsPerTask_;
    const float *from = x + outer * blocks_.reduced * blocks_.inner + column;
    if constexpr (std::is_same_v<Op, ReduceOp>) {
      if (row_.finish == Finish::kLogSumExp) {
        fold(ReduceOp::kMax, from, columns, y, scratch);
        fold(row_.op, from, columns, totals, scratch, y);
        for (int64_t c = 0; c < columns; ++c)
          if (!std::isinf(y[c])) y[c] += std::log(totals[c]);
        return;
      }
      totals = y;
    }
    fold(row_.op, from, columns, totals, scratch);
    if (std::is_same_v<Total, float> && row_.finish == Finish::kNone) return;
    for (int64_t c = 0; c < columns; ++c) y[c] = static_cast<float>(finish(totals[c]));
  }
  template <class... Shift>
  void fold(Op op, const float *x, int64_t columns, Total *totals, Total *part, Shift... shift) const noexcept {
    const ReducedBlocks &b = blocks_;
    std::fill_n(totals, columns, reduceIdentity(op));
    for (int64_t l = 0; l < b.leading; ++l, x += b.outer * b.reduced * b.inner) {
      Total *to = b.leading == 1 ? totals : part;
      if (b.inner == 1)
        *to = reduceRow(op, x, b.reduced, *shift...);
      else
        reduceColumns(op, x, b.inner, b.reduced, columns, to, shift...);
      for (int64_t c = 0; c < columns && to == part; ++c) totals[c] = reduceCombine(op, totals[c], part[c]);
    }
  }
  Total finish(Total total) const noexcept {
    switch (row_.finish) {
      case Finish::kMean:
        return total / static_cast<Total>(blocks_.leading * blocks_.reduced);
      case Finish::kRoot:
        return std::sqrt(total);
      case Finish::kLog:
        return std::log(total);
      default:
        return total;
    }
  }

  ReduceRow<Op> row_;
  ReducedBlocks blocks_;
  DataType type_;
  int64_t columnsPerTask_, columnTasks_, outerPerTask_, outerTasks_, leaves_ = 1;
  Rounds rounds_;
};

template <class Op>
std::unique_ptr<executable::Kernel> reduceKernel(const ReduceRow<Op> &row, const ReducedBlocks &blocks,
                                                 const KernelRequest &request, std::string &reason) {
  const DataType type = request.inputs[0].info.dataType();
  auto kernel = std::make_unique<ReduceKernel<Op>>(row, blocks, type, request.threads);
  if (!isHalf(type)) return kernel;
  if (!std::is_same_v<Op, ReduceOp> || row.finish == Finish::kLogSumExp)
    return reason = "it takes FLOAT only: got " + toText(type), nullptr;
  if (!kernel->takesLittleScratch()) return reason = "its rows of 16-bit numbers are long", nullptr;
  return kernel;
}

std::unique_ptr<executable::Kernel> createReduce(const KernelRequest &request, std::string &reason) {
  const DataType given = request.inputs[0].info.dataType();
  if (!allPlain(request, reason) || !allOfType(request, isHalf(given) ? given : DataType::FLOAT, reason))
    return nullptr;
  const std::string &type = request.op->def().base().type();
  const Shape &shape = request.inputs[0].info.shape();
  const auto blocks =
      reducedBlocks(shape, ops::reductionAxes(request.op->attributes(), static_cast<int64_t>(shape.size())));
  if (!blocks) return reason = "its axes alternate between kept and reduced too often", nullptr;
  for (const auto &row : kReduceRows)
    if (type == row.type) return reduceKernel(row, *blocks, request, reason);
  for (const auto &row : kDoubleRows)
    if (type == row.type) return reduceKernel(row, *blocks, request, reason);
  return nullptr;
}

constexpr Entry kReduceKernels[] = {
    {"ReduceSum", createReduce},       {"ReduceMean", createReduce},        {"ReduceMax", createReduce},
    {"ReduceMin", createReduce},       {"ReduceSumSquare", createReduce},   {"ReduceL1", createReduce},
    {"ReduceL2", createReduce},        {"ReduceProd", createReduce},        {"ReduceLogSum", createReduce},
    {"ReduceLogSumExp", createReduce}, {"ReduceProdGrad", productGradient}, {"ReduceExtremes", createReduceExtremes}};

}  // namespace

std::span<const Entry> reduceKernels() { return kReduceKernels; }

}  // namespace popart::cpu
