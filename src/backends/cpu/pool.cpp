// Pooling and its gradients. In plain memory, pooling runs along rows (kernels/pool_rows.hpp), and the gradients of
// windows that cover the whole input run plane by plane. Channels last, it runs window by window; a window is the list
// of its pixels inside the input. Forward tasks are rows of output pixels. Gradient tasks are blocks of channels of an
// image, and ranges of its lines if windows of different lines share no input: no two write the same element.
#include <algorithm>

#include <popart/graph.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/pool_rows.hpp"
#include "backends/cpu/pool_window.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/extremes.hpp"
#include "backends/cpu/vector/windows.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

class PoolKernel final : public executable::HostKernel {
 public:
  PoolKernel(const Pool &pool, PoolKind kind, bool countPadding)
      : pool_(pool), windows_(pool), kind_(kind), countPadding_(countPadding) {
    const int64_t work = pool.n * pool.outputPixels() * pool.channels * pool.taps();
    tasks_ = static_cast<int>(taskCount(work, int64_t{1} << 13, pool.n * pool.outputPixels()));
  }
  std::string name() const override { return kind_ == PoolKind::kMaximum ? "max pool" : "average pool"; }
  int tasks() const override { return tasks_; }
  int64_t scratchBytes() const override { return pool_.taps() * static_cast<int64_t>(sizeof(int64_t)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const float *x = static_cast<const float *>(args.in[0]);
    float *y = static_cast<float *>(args.out[0]);
    const int64_t pixels = pool_.outputPixels(), all = pool_.n * pixels, channels = pool_.channels;
    for (int64_t i = all * task / tasks_; i < all * (task + 1) / tasks_; ++i) {
      const PoolWindow w = windows_.at(i % pixels, static_cast<int64_t *>(args.scratch));
      const float *image = x + i / pixels * pool_.inputPixels() * pool_.pixelOfX();
      float *result = y + i * pool_.pixelOfY();
      if (kind_ == PoolKind::kMaximum) {
        maximumOfTaps(image, w.taps, channels, result);
      } else {
        const int64_t count = countPadding_ ? w.padded : static_cast<int64_t>(w.taps.size());
        sumOfTaps(image, w.taps, channels, count == 0 ? 0.0f : 1.0f / static_cast<float>(count), result);
      }
    }
  }

 private:
  Pool pool_;
  PoolWindows windows_;
  PoolKind kind_;
  bool countPadding_;
  int tasks_ = 1;
};

class PlainPoolKernel final : public executable::HostKernel {
 public:
  PlainPoolKernel(const Pool &pool, PoolKind kind, bool countPadding) : kind_(kind), rows_(pool, kind, countPadding) {}
  std::string name() const override {
    return kind_ == PoolKind::kMaximum ? "max pool of plain memory" : "average pool of plain memory";
  }
  int tasks() const override { return rows_.tasks(); }
  int64_t scratchBytes() const override { return rows_.scratchBytes(); }
  void run(const KernelArgs &args, int task) const noexcept override {
    rows_.run(static_cast<const float *>(args.in[0]), static_cast<float *>(args.out[0]), args.scratch, task);
  }

 private:
  PoolKind kind_;
  RowPool rows_;
};

class PoolGradientKernel final : public executable::HostKernel {
 public:
  PoolGradientKernel(const Pool &pool, PoolKind kind, bool countPadding, int threads)
      : pool_(pool),
        windows_(pool),
        kind_(kind),
        countPadding_(countPadding),
        blocks_(columnRanges(pool.channels, pool.n, 32, 16, threads)) {
    constexpr int64_t kElements = 1 << 14;  // of x, per task
    const bool areApart = pool.in[0] == 1 && pool.out[0] == 1 &&
                          pool.stride[1] > (pool.kernel[1] - 1) * pool.dilation[1];  // windows of different lines
    if (areApart)
      parts_ = std::clamp<int64_t>(
          std::min(ceilDiv(int64_t{4} * threads, std::max<int64_t>(1, pool.n * blocks_)),
                   pool.inputPixels() * (pool.channels / std::max<int64_t>(1, blocks_)) / kElements),
          1, std::max<int64_t>(1, pool.out[1]));
  }
  std::string name() const override {
    return kind_ == PoolKind::kMaximum ? "max pool gradient" : "average pool gradient";
  }
  int tasks() const override { return static_cast<int>(pool_.n * blocks_ * parts_); }
  int64_t scratchBytes() const override { return pool_.taps() * static_cast<int64_t>(sizeof(int64_t)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t image = task / parts_ / blocks_, block = task / parts_ % blocks_, channels = pool_.channels;
    const int64_t first = pool_.out[1] * (task % parts_) / parts_, end = pool_.out[1] * (task % parts_ + 1) / parts_;
    const int64_t begin = channels * block / blocks_, count = channels * (block + 1) / blocks_ - begin;
    const float *g = static_cast<const float *>(args.in[0]) + image * pool_.outputPixels() * channels + begin;
    const int64_t offset = image * pool_.inputPixels() * channels + begin;
    float *dx = static_cast<float *>(args.out[0]) + offset;
    // Pixels become zero line by line, just before the first window adds to them.
    int64_t zeros = inputLine(first) * pool_.in[2];
    const auto fillTo = [&](int64_t pixel) {
      if (count == channels && zeros < pixel) std::fill_n(dx + zeros * channels, (pixel - zeros) * channels, 0.0f);
      for (int64_t i = zeros; i < pixel && count != channels; ++i) std::fill_n(dx + i * channels, count, 0.0f);
      zeros = std::max(zeros, pixel);
    };
    const int64_t perLine = pool_.outputPixels() / std::max<int64_t>(1, pool_.out[1]);  // over all depths
    for (int64_t i = first * perLine; i < end * perLine; ++i) {
      const PoolWindow w = windows_.at(i, static_cast<int64_t *>(args.scratch));
      if (!w.taps.empty()) fillTo((w.taps.back() / pool_.pixelOfX() / pool_.in[2] + 1) * pool_.in[2]);
      if (kind_ == PoolKind::kMaximum) {
        spreadToMaximum(static_cast<const float *>(args.in[1]) + offset, w.taps, count, g + i * channels, dx);
      } else {
        const int64_t elements = countPadding_ ? w.padded : static_cast<int64_t>(w.taps.size());
        spreadToTaps(w.taps, count, g + i * channels, 1.0f / static_cast<float>(elements), dx);
      }
    }
    fillTo(end == pool_.out[1] ? pool_.inputPixels() : inputLine(end) * pool_.in[2]);
  }

 private:
  // The first line of x that belongs to the part which begins with a line of y.
  int64_t inputLine(int64_t line) const noexcept {
    return line == 0 ? 0 : std::clamp<int64_t>(line * pool_.stride[1] - pool_.padLow[1], 0, pool_.in[1]);
  }

  Pool pool_;
  PoolWindows windows_;
  PoolKind kind_;
  bool countPadding_;
  int64_t blocks_, parts_ = 1;  // blocks of channels, ranges of lines
};

class PlainPoolGradientKernel final : public executable::HostKernel {
 public:
  PlainPoolGradientKernel(const Pool &pool, PoolKind kind, bool countPadding)
      : kind_(kind), rows_(pool, kind, countPadding) {}
  std::string name() const override {
    return kind_ == PoolKind::kMaximum ? "max pool gradient of plain memory" : "average pool gradient of plain memory";
  }
  int tasks() const override { return rows_.tasks(); }
  int64_t scratchBytes() const override { return rows_.scratchBytes(); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const void *x = kind_ == PoolKind::kMaximum ? args.in[1] : nullptr;
    rows_.run(static_cast<const float *>(args.in[0]), static_cast<const float *>(x), static_cast<float *>(args.out[0]),
              args.scratch, task);
  }

 private:
  PoolKind kind_;
  RowPoolGradient rows_;
};

// The gradients in plain memory if each plane is one window.
class PlanePoolGradientKernel final : public executable::HostKernel {
 public:
  PlanePoolGradientKernel(const Pool &pool, PoolKind kind, bool countPadding)
      : kind_(kind), planes_(pool.n * pool.channels), size_(pool.inputPixels()) {
    int64_t counted = 1;
    for (size_t d = 0; d < pool.in.size(); ++d) counted *= countPadding ? reach(pool, d, 0).padded : pool.in[d];
    scale_ = 1.0f / static_cast<float>(counted);
    tasks_ = static_cast<int>(taskCount(planes_ * size_, int64_t{1} << 14, planes_));
  }
  // Whether there is one window, which covers the whole input.
  static bool fits(const Pool &pool) {
    for (size_t d = 0; d < pool.in.size(); ++d)
      if (pool.out[d] != 1 || reach(pool, d, 0).count != pool.in[d] || (pool.dilation[d] > 1 && pool.in[d] > 1))
        return false;
    return true;
  }
  std::string name() const override {
    return kind_ == PoolKind::kMaximum ? "max pool gradient of planes" : "average pool gradient of planes";
  }
  int tasks() const override { return tasks_; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const auto *g = static_cast<const float *>(args.in[0]);
    for (int64_t plane = planes_ * task / tasks_; plane < planes_ * (task + 1) / tasks_; ++plane) {
      float *dx = static_cast<float *>(args.out[0]) + plane * size_;
      if (kind_ == PoolKind::kAverage) {
        std::fill_n(dx, size_, g[plane] * scale_);
        continue;
      }
      if (size_ == 0) continue;
      const float *x = static_cast<const float *>(args.in[1]) + plane * size_;
      const int64_t place = placeOfExtreme(Extreme::kLargest, Tie::kFirst, x, size_);
      std::fill_n(dx, size_, 0.0f);
      dx[place] = g[plane];
    }
  }

 private:
  PoolKind kind_;
  int64_t planes_, size_;
  float scale_ = 1;
  int tasks_ = 1;
};

// Whether the kernels for rows of plain memory apply; they also apply to channels-last memory with one channel.
bool isPlain(const KernelRequest &request) {
  std::string reason;
  return allPlain(request, reason) && allOfType(request, DataType::FLOAT, reason);
}

bool hasWindows(const KernelRequest &request, std::string &reason) {
  const int64_t rank = request.outputs[0].info.rank();
  if (rank < 3 || rank > 5) return reason = "it takes one to three spatial dimensions", false;
  if (request.outputs.size() > 1 && request.outputs[1].connected) return reason = "it gives no indices", false;
  return true;
}

bool takesPool(const KernelRequest &request, std::string &reason) {
  if (!hasWindows(request, reason)) return false;
  for (const auto *list : {&request.inputs, &request.outputs})
    for (const auto &o : *list)
      if (o.connected && !requirePixels(o, reason)) return false;
  return true;
}

template <PoolKind kKind>
std::unique_ptr<executable::Kernel> createPool(const KernelRequest &request, std::string &reason) {
  if (!hasWindows(request, reason)) return nullptr;
  const Op &op = *request.op;
  Pool pool = poolOf(op, request.inputs[0].info.shape(), request.outputs[0].info.shape());
  const bool countPadding = kKind == PoolKind::kAverage && op.attrInt("count_include_pad") != 0;
  if (isPlain(request) && RowPool::fits(pool)) return std::make_unique<PlainPoolKernel>(pool, kKind, countPadding);
  if (!takesPool(request, reason)) return nullptr;
  pool.xStride = strideOfSlice(request.inputs[0]), pool.yStride = strideOfSlice(request.outputs[0]);
  return std::make_unique<PoolKernel>(pool, kKind, countPadding);
}

template <PoolKind kKind>
std::unique_ptr<executable::Kernel> createPoolGradient(const KernelRequest &request, std::string &reason) {
  if (!hasWindows(request, reason)) return nullptr;
  const Op &op = *request.op;
  const Pool pool = poolOf(op, request.outputs[0].info.shape(), request.inputs[0].info.shape());
  const bool countPadding = kKind == PoolKind::kAverage && op.attrInt("count_include_pad") != 0;
  if (isPlain(request) && PlanePoolGradientKernel::fits(pool))
    return std::make_unique<PlanePoolGradientKernel>(pool, kKind, countPadding);
  if (isPlain(request) && RowPool::fits(pool) &&
      (kKind == PoolKind::kAverage || pool.taps() <= RowPoolGradient::kMostTaps))
    return std::make_unique<PlainPoolGradientKernel>(pool, kKind, countPadding);
  if (!takesPool(request, reason)) return nullptr;
  return std::make_unique<PoolGradientKernel>(pool, kKind, countPadding, request.threads);
}

constexpr Entry kPoolKernels[] = {{"MaxPool", createPool<PoolKind::kMaximum>},
                                  {"AveragePool", createPool<PoolKind::kAverage>},
                                  {"MaxPoolGrad", createPoolGradient<PoolKind::kMaximum>},
                                  {"AveragePoolGrad", createPoolGradient<PoolKind::kAverage>}};

}  // namespace

std::span<const Entry> poolKernels() { return kPoolKernels; }

}  // namespace popart::cpu
