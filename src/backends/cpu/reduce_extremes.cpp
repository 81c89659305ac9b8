// Few long rows are split into leaves, many short ones are divided among tasks. The split depends only on the shape.
#include "backends/cpu/reduce_extremes.hpp"

#include <algorithm>
#include <optional>

#include <popart/op.hpp>

#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/reduce_ops.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;

class ExtremesKernel final : public executable::HostKernel {
 public:
  ExtremesKernel(int64_t rows, int64_t length) : rows_(rows), length_(length) {
    constexpr int64_t kPerTask = 16384;  // elements
    if (rows > 0 && rows * 2 <= kMostTasks)
      leaves_ = std::max<int64_t>(1, leafCount(rows * length, kPerTask, kMostTasks) / rows);
    rowsPerTask_ = leaves_ > 1 ? 1 : std::max<int64_t>(1, kPerTask / std::max<int64_t>(1, length));
    rounds_.add(std::max<int64_t>(1, ceilDiv(rows, rowsPerTask_) * leaves_), 1);
    if (leaves_ > 1) rounds_.add(1, 0);
  }
  std::string name() const override { return "extremes of rows"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t sharedBytes() const override {
    return leaves_ == 1 ? 0 : rows_ * leaves_ * static_cast<int64_t>(sizeof(RowExtremes));
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    const auto *x = static_cast<const float *>(args.in[0]);
    auto *least = static_cast<float *>(args.out[0]), *greatest = static_cast<float *>(args.out[1]);
    if (leaves_ == 1) {
      const int64_t first = task * rowsPerTask_, last = std::min(first + rowsPerTask_, rows_);
      for (int64_t row = first; row < last; ++row) {
        const RowExtremes found = reduceRowExtremes(x + row * length_, length_);
        least[row] = found.least, greatest[row] = found.greatest;
      }
      return;
    }
    auto *parts = static_cast<RowExtremes *>(args.shared);
    if (rounds_.place(task).round == 0) {
      const int64_t row = task / leaves_, leaf = task % leaves_, begin = length_ * leaf / leaves_;
      parts[task] = reduceRowExtremes(x + row * length_ + begin, length_ * (leaf + 1) / leaves_ - begin);
      return;
    }
    for (int64_t row = 0; row < rows_; ++row) {
      RowExtremes all = parts[row * leaves_];
      for (int64_t leaf = 1; leaf < leaves_; ++leaf) {
        all.least = reduceCombine(ReduceOp::kMin, all.least, parts[row * leaves_ + leaf].least);
        all.greatest = reduceCombine(ReduceOp::kMax, all.greatest, parts[row * leaves_ + leaf].greatest);
      }
      least[row] = all.least, greatest[row] = all.greatest;
    }
  }

 private:
  int64_t rows_, length_, leaves_ = 1, rowsPerTask_ = 1;
  Rounds rounds_;
};

}  // namespace

std::unique_ptr<executable::Kernel> createReduceExtremes(const executable::KernelRequest &request,
                                                         std::string &reason) {
  if (!allPlain(request, reason) || !allOfType(request, DataType::FLOAT, reason)) return nullptr;
  const Shape &shape = request.inputs[0].info.shape();
  const std::vector<int64_t> axes = ops::reductionAxes(request.op->attributes(), static_cast<int64_t>(shape.size()));
  int64_t rows = 1, length = 1;
  bool isReduced = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool reduces = std::ranges::find(axes, static_cast<int64_t>(d)) != axes.end();
    if (isReduced && !reduces) return reason = "it takes the last axes only", nullptr;
    isReduced = reduces;
    (reduces ? length : rows) *= shape[d];
  }
  return std::make_unique<ExtremesKernel>(rows, length);
}

}  // namespace popart::cpu
