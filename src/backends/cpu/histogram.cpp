// Histogram: each task counts, block by block, the elements below each level; the last task adds the counts and takes
// differences. Counts are exact integers, so the partition does not matter.
#include <algorithm>
#include <array>
#include <cmath>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/element_ops.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int64_t kBlock = 1024;

uint32_t countBelow(const float *x, int64_t count, float level) {
  uint32_t below = 0;
  for (int64_t i = 0; i < count; ++i) below += static_cast<uint32_t>(x[i] < level);
  return below;
}

class HistogramKernel final : public executable::HostKernel {
 public:
  HistogramKernel(const TensorInfo &x, std::vector<float> levels, bool isAbsolute)
      : elements_(x.nelms()),
        bytes_(getDataTypeInfo(x.dataType()).nbytes),
        load_(loadFunction(x.dataType(), LoadFrom::kElements)),
        levels_(std::move(levels)),
        isAbsolute_(isAbsolute) {
    constexpr int64_t kLeast = 16 * kBlock;
    rounds_.add(taskCount(elements_, kLeast, elements_ / kLeast), static_cast<double>(elements_));
    rounds_.add(1, 1);
  }
  std::string name() const override { return "histogram"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t sharedBytes() const override {
    return rounds_.size(0) * levelCount() * static_cast<int64_t>(sizeof(uint32_t));
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    const auto [round, part] = rounds_.place(task);
    const int64_t parts = rounds_.size(0);
    auto *below = static_cast<uint32_t *>(args.shared);
    if (round == 0)
      return countPart(args.in[0], elements_ * part / parts, elements_ * (part + 1) / parts,
                       below + part * levelCount());
    auto *counts = static_cast<uint32_t *>(args.out[0]);
    uint32_t before = 0;
    for (int64_t level = 0; level < levelCount(); ++level) {
      uint32_t all = 0;
      for (int64_t p = 0; p < parts; ++p) all += below[p * levelCount() + level];
      counts[level] = all - before;
      before = all;
    }
    counts[levelCount()] = static_cast<uint32_t>(elements_) - before;
  }

 private:
  int64_t levelCount() const { return static_cast<int64_t>(levels_.size()); }

  void countPart(const void *x, int64_t begin, int64_t end, uint32_t *below) const noexcept {
    std::fill_n(below, levels_.size(), 0u);
    std::array<float, kBlock> block;
    for (int64_t from = begin; from < end; from += kBlock) {
      const int64_t count = std::min(kBlock, end - from);
      const void *source = static_cast<const char *>(x) + from * bytes_;
      load_(&source, block.data(), count, nullptr);
      if (isAbsolute_)
        for (int64_t i = 0; i < count; ++i) block[static_cast<size_t>(i)] = std::fabs(block[static_cast<size_t>(i)]);
      for (size_t level = 0; level < levels_.size(); ++level)
        below[level] += countBelow(block.data(), count, levels_[level]);
    }
  }

  int64_t elements_, bytes_;
  ElementFn load_;
  std::vector<float> levels_;
  bool isAbsolute_;
  Rounds rounds_;
};

std::unique_ptr<executable::Kernel> createHistogram(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const TensorInfo &x = request.inputs[0].info;
  if (x.dataType() == DataType::DOUBLE) return reason = "float64 is computed by the reference", nullptr;
  return std::make_unique<HistogramKernel>(x, request.op->attributes().getAttribute<std::vector<float>>("levels"),
                                           request.op->attrInt("absoluteOfInput") != 0);
}

constexpr Entry kHistogramKernels[] = {{"Histogram", createHistogram}};

}  // namespace

std::span<const Entry> histogramKernels() { return kHistogramKernels; }

}  // namespace popart::cpu
