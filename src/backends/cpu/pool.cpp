// Pooling over channels-last activations and its gradients, window by window; a window is the list of its pixels inside
// the input. Forward tasks are rows of output pixels; gradient tasks are an image and a block of channels, so that no
// two write the same element.
#include <algorithm>

#include <popart/graph.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/pool_window.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/windows.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

enum class Kind { Maximum, Average };

class PoolKernel final : public executable::HostKernel {
 public:
  PoolKernel(const Pool &pool, Kind kind, bool countPadding) : pool_(pool), kind_(kind), countPadding_(countPadding) {
    const int64_t work = pool.n * pool.outputPixels() * pool.channels * pool.taps();
    tasks_ = static_cast<int>(taskCount(work, int64_t{1} << 13, pool.n * pool.outputPixels()));
  }
  std::string name() const override { return kind_ == Kind::Maximum ? "max pool" : "average pool"; }
  int tasks() const override { return tasks_; }
  int64_t scratchBytes() const override { return pool_.taps() * static_cast<int64_t>(sizeof(int64_t)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const float *x = static_cast<const float *>(args.in[0]);
    float *y = static_cast<float *>(args.out[0]);
    const int64_t pixels = pool_.outputPixels(), all = pool_.n * pixels, channels = pool_.channels;
    for (int64_t i = all * task / tasks_; i < all * (task + 1) / tasks_; ++i) {
      const PoolWindow w = windowAt(pool_, i % pixels, static_cast<int64_t *>(args.scratch));
      const float *image = x + i / pixels * pool_.inputPixels() * channels;
      if (kind_ == Kind::Maximum) {
        maximumOfTaps(image, w.taps, channels, y + i * channels);
      } else {
        const int64_t count = countPadding_ ? w.padded : static_cast<int64_t>(w.taps.size());
        sumOfTaps(image, w.taps, channels, count == 0 ? 0.0f : 1.0f / static_cast<float>(count), y + i * channels);
      }
    }
  }

 private:
  Pool pool_;
  Kind kind_;
  bool countPadding_;
  int tasks_ = 1;
};

class PoolGradientKernel final : public executable::HostKernel {
 public:
  PoolGradientKernel(const Pool &pool, Kind kind, bool countPadding, int threads)
      : pool_(pool),
        kind_(kind),
        countPadding_(countPadding),
        blocks_(columnRanges(pool.channels, pool.n, 32, 16, threads)) {}
  std::string name() const override { return kind_ == Kind::Maximum ? "max pool gradient" : "average pool gradient"; }
  int tasks() const override { return static_cast<int>(pool_.n * blocks_); }
  int64_t scratchBytes() const override { return pool_.taps() * static_cast<int64_t>(sizeof(int64_t)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t image = task / blocks_, block = task % blocks_, channels = pool_.channels;
    const int64_t begin = channels * block / blocks_, count = channels * (block + 1) / blocks_ - begin;
    const float *g = static_cast<const float *>(args.in[0]) + image * pool_.outputPixels() * channels + begin;
    const int64_t offset = image * pool_.inputPixels() * channels + begin;
    float *dx = static_cast<float *>(args.out[0]) + offset;
    for (int64_t i = 0; i < pool_.inputPixels(); ++i) std::fill_n(dx + i * channels, count, 0.0f);
    for (int64_t i = 0; i < pool_.outputPixels(); ++i) {
      const PoolWindow w = windowAt(pool_, i, static_cast<int64_t *>(args.scratch));
      if (kind_ == Kind::Maximum) {
        spreadToMaximum(static_cast<const float *>(args.in[1]) + offset, w.taps, count, g + i * channels, dx);
      } else {
        const int64_t elements = countPadding_ ? w.padded : static_cast<int64_t>(w.taps.size());
        spreadToTaps(w.taps, count, g + i * channels, 1.0f / static_cast<float>(elements), dx);
      }
    }
  }

 private:
  Pool pool_;
  Kind kind_;
  bool countPadding_;
  int64_t blocks_;
};

bool takes(const KernelRequest &request, std::string &reason) {
  const int64_t rank = request.outputs[0].info.rank();
  if (rank < 3 || rank > 5) return reason = "it takes one to three spatial dimensions", false;
  if (request.outputs.size() > 1 && request.outputs[1].connected) return reason = "it gives no indices", false;
  for (const auto *list : {&request.inputs, &request.outputs})
    for (const auto &o : *list)
      if (o.connected && !requireChannelsLast(o, reason)) return false;
  return true;
}

template <Kind kKind>
std::unique_ptr<executable::Kernel> createPool(const KernelRequest &request, std::string &reason) {
  if (!takes(request, reason)) return nullptr;
  const Op &op = *request.op;
  const Pool pool = poolOf(op, request.inputs[0].info.shape(), request.outputs[0].info.shape());
  return std::make_unique<PoolKernel>(pool, kKind, kKind == Kind::Average && op.attrInt("count_include_pad") != 0);
}

template <Kind kKind>
std::unique_ptr<executable::Kernel> createGradient(const KernelRequest &request, std::string &reason) {
  if (!takes(request, reason)) return nullptr;
  const Op &op = *request.op;
  const Pool pool = poolOf(op, request.outputs[0].info.shape(), request.inputs[0].info.shape());
  return std::make_unique<PoolGradientKernel>(
      pool, kKind, kKind == Kind::Average && op.attrInt("count_include_pad") != 0, request.threads);
}

constexpr Entry kEntries[] = {{"MaxPool", createPool<Kind::Maximum>},
                              {"AveragePool", createPool<Kind::Average>},
                              {"MaxPoolGrad", createGradient<Kind::Maximum>},
                              {"AveragePoolGrad", createGradient<Kind::Average>}};

}  // namespace

std::span<const Entry> poolKernels() { return kEntries; }

}  // namespace popart::cpu
