// Pools that pool.cpp refuses: maxima of bytes, maxima with their indices, and p-norms with their gradient. Memory is
// channels last; loops over channels are innermost. Gradient tasks are images, so that no two write the same element.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/pool_window.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

int forwardTasks(const Pool &pool) {
  const int64_t work = pool.n * pool.outputPixels() * pool.channels * pool.taps();
  return static_cast<int>(taskCount(work, 1 << 15, pool.n * pool.outputPixels()));
}

// y = first maximum of each window (the first NaN wins). Positions are in plain layout and refer to the whole input in
// plain layout.
template <class T>
class MaximumKernel final : public executable::HostKernel {
 public:
  MaximumKernel(const Pool &pool, bool columnMajor)
      : pool_(pool), windows_(pool), columnMajor_(columnMajor), tasks_(forwardTasks(pool)) {}
  std::string name() const override { return "max pool with positions"; }
  int tasks() const override { return tasks_; }
  int64_t scratchBytes() const override { return (pool_.taps() + pool_.channels) * 8; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t pixels = pool_.outputPixels(), all = pool_.n * pixels, channels = pool_.channels;
    auto *taps = static_cast<int64_t *>(args.scratch), *best = taps + pool_.taps();
    auto *positions = args.out[1] ? static_cast<int64_t *>(args.out[1]) : nullptr;
    for (int64_t i = all * task / tasks_; i < all * (task + 1) / tasks_; ++i) {
      const int64_t image = i / pixels, pixel = i % pixels;
      const PoolWindow w = windows_.at(pixel, taps);
      T *y = static_cast<T *>(args.out[0]) + i * channels;
      const T *x = static_cast<const T *>(args.in[0]) + image * pool_.inputPixels() * channels;
      maxima(x, w.taps, y, best);
      for (int64_t c = 0; positions && c < channels; ++c)
        positions[(image * channels + c) * pixels + pixel] =
            best[c] < 0 ? -1 : (image * channels + c) * pool_.inputPixels() + place(best[c] / channels);
    }
  }

 private:
  void maxima(const T *x, Taps taps, T *y, int64_t *best) const noexcept {
    std::fill_n(best, pool_.channels, int64_t{-1});
    T none = std::numeric_limits<T>::lowest();
    if constexpr (std::numeric_limits<T>::has_infinity) none = -std::numeric_limits<T>::infinity();
    std::fill_n(y, pool_.channels, none);
    for (const int64_t tap : taps)
      for (int64_t c = 0; c < pool_.channels; ++c) {
        const T value = x[tap + c];
        if (best[c] >= 0 && (y[c] != y[c] || !(value > y[c] || value != value))) continue;
        y[c] = value;
        best[c] = tap;
      }
  }
  int64_t place(int64_t pixel) const noexcept {
    if (!columnMajor_) return pixel;
    const int64_t col = pixel % pool_.in[2], row = pixel / pool_.in[2] % pool_.in[1],
                  depth = pixel / (pool_.in[2] * pool_.in[1]);
    return depth + pool_.in[0] * (row + pool_.in[1] * col);
  }
  Pool pool_;
  PoolWindows windows_;
  bool columnMajor_;
  int tasks_;
};

// base^p for base >= 0 and an integer p.
float power(float base, int64_t p) {
  if (p == 1) return base;
  if (p == 2) return base * base;
  return std::pow(base, static_cast<float>(p));
}

// y = (sum |x|^p)^(1/p)
class NormKernel final : public executable::HostKernel {
 public:
  NormKernel(const Pool &pool, int64_t p) : pool_(pool), windows_(pool), p_(p), tasks_(forwardTasks(pool)) {}
  std::string name() const override { return "p-norm pool"; }
  int tasks() const override { return tasks_; }
  int64_t scratchBytes() const override { return pool_.taps() * 8; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t pixels = pool_.outputPixels(), all = pool_.n * pixels, channels = pool_.channels;
    for (int64_t i = all * task / tasks_; i < all * (task + 1) / tasks_; ++i) {
      const PoolWindow w = windows_.at(i % pixels, static_cast<int64_t *>(args.scratch));
      const float *x = static_cast<const float *>(args.in[0]) + i / pixels * pool_.inputPixels() * channels;
      float *y = static_cast<float *>(args.out[0]) + i * channels;
      std::fill_n(y, channels, 0.0f);
      for (const int64_t tap : w.taps)
        for (int64_t c = 0; c < channels; ++c) y[c] += power(std::abs(x[tap + c]), p_);
      if (p_ == 2)
        for (int64_t c = 0; c < channels; ++c) y[c] = std::sqrt(y[c]);
      else if (p_ != 1)
        for (int64_t c = 0; c < channels; ++c) y[c] = std::pow(y[c], 1.0f / static_cast<float>(p_));
    }
  }

 private:
  Pool pool_;
  PoolWindows windows_;
  int64_t p_;
  int tasks_;
};

// dx = g sign(x) (|x| / y)^(p - 1), summed over the windows; inputs g, x, y.
class NormGradientKernel final : public executable::HostKernel {
 public:
  NormGradientKernel(const Pool &pool, int64_t p) : pool_(pool), windows_(pool), p_(p) {}
  std::string name() const override { return "p-norm pool gradient"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, pool_.n)); }
  int64_t scratchBytes() const override { return pool_.taps() * 8; }
  void run(const KernelArgs &args, int image) const noexcept override {
    if (pool_.n == 0) return;
    const int64_t channels = pool_.channels, in = image * pool_.inputPixels() * channels,
                  out = image * pool_.outputPixels() * channels;
    const float *g = static_cast<const float *>(args.in[0]) + out, *x = static_cast<const float *>(args.in[1]) + in,
                *y = static_cast<const float *>(args.in[2]) + out;
    float *dx = static_cast<float *>(args.out[0]) + in;
    std::fill_n(dx, pool_.inputPixels() * channels, 0.0f);
    for (int64_t i = 0; i < pool_.outputPixels(); ++i) {
      const PoolWindow w = windows_.at(i, static_cast<int64_t *>(args.scratch));
      for (const int64_t tap : w.taps)
        for (int64_t c = 0; c < channels; ++c) {
          const float value = x[tap + c], norm = y[i * channels + c];
          if (value == 0 || norm == 0) continue;
          dx[tap + c] += g[i * channels + c] * std::copysign(power(std::abs(value) / norm, p_ - 1), value);
        }
    }
  }

 private:
  Pool pool_;
  PoolWindows windows_;
  int64_t p_;
};

bool takesGeneralPool(const KernelRequest &request, std::string &reason) {
  const int64_t rank = request.outputs[0].info.rank();
  if (rank < 3 || rank > 5) return reason = "it takes one to three spatial dimensions", false;
  for (const auto &o : request.inputs)
    if (!isChannelsLast(o))
      return reason = "it takes channels last only: got " + executable::layoutName(o.layout), false;
  if (!isChannelsLast(request.outputs[0])) return reason = "it gives channels last only", false;
  return true;
}
bool areFloats(const KernelRequest &request, std::string &reason) {
  if (request.outputs[0].info.dataType() == DataType::FLOAT) return true;
  return reason = "it takes FLOAT only: got " + toText(request.outputs[0].info.dataType()), false;
}

std::unique_ptr<executable::Kernel> createMaximum(const KernelRequest &request, std::string &reason) {
  if (!takesGeneralPool(request, reason)) return nullptr;
  const Pool pool = poolOf(*request.op, request.inputs[0].info.shape(), request.outputs[0].info.shape());
  const bool columnMajor = request.op->attrInt("storage_order") != 0;
  switch (request.outputs[0].info.dataType()) {
    case DataType::FLOAT:
      return std::make_unique<MaximumKernel<float>>(pool, columnMajor);
    case DataType::INT8:
      return std::make_unique<MaximumKernel<int8_t>>(pool, columnMajor);
    case DataType::UINT8:
      return std::make_unique<MaximumKernel<uint8_t>>(pool, columnMajor);
    default:
      return reason = "it takes FLOAT only: got " + toText(request.outputs[0].info.dataType()), nullptr;
  }
}

std::unique_ptr<executable::Kernel> createLpPool(const KernelRequest &request, std::string &reason) {
  if (!takesGeneralPool(request, reason) || !areFloats(request, reason)) return nullptr;
  return std::make_unique<NormKernel>(
      poolOf(*request.op, request.inputs[0].info.shape(), request.outputs[0].info.shape()), request.op->attrInt("p"));
}

std::unique_ptr<executable::Kernel> createLpPoolGradient(const KernelRequest &request, std::string &reason) {
  if (!takesGeneralPool(request, reason) || !areFloats(request, reason)) return nullptr;
  return std::make_unique<NormGradientKernel>(
      poolOf(*request.op, request.outputs[0].info.shape(), request.inputs[0].info.shape()), request.op->attrInt("p"));
}

constexpr Entry kGeneralPoolKernels[] = {
    {"MaxPool", createMaximum}, {"LpPool", createLpPool}, {"LpPoolGrad", createLpPoolGradient}};

}  // namespace

std::span<const Entry> generalPoolKernels() { return kGeneralPoolKernels; }

}  // namespace popart::cpu
