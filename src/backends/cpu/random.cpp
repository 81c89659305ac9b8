// Dropout, its gradient, uniform random numbers of float32 tensors, and stochastic rounding: with the reference's bits,
// drawn in bulk.
#include <algorithm>
#include <cmath>
#include <limits>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/vector/random_words.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// A multiple of four, so that tasks begin at whole Philox blocks.
constexpr int64_t kNumbersPerTask = 1 << 14;

int tasksOf(int64_t elements) {
  return static_cast<int>(std::max<int64_t>(1, (elements + kNumbersPerTask - 1) / kNumbersPerTask));
}
PhiloxKey keyOf(const void *seed) {
  return {static_cast<const uint32_t *>(seed)[0], static_cast<const uint32_t *>(seed)[1]};
}

class DropoutKernel final : public executable::HostKernel {
 public:
  DropoutKernel(int64_t elements, float ratio, bool hasMask)
      : elements_(elements),
        threshold_(dropoutThreshold(ratio)),
        scale_(1.0 / (1.0 - double{ratio})),
        hasMask_(hasMask) {}
  std::string name() const override { return "dropout"; }
  int tasks() const override { return tasksOf(elements_); }
  bool canOverwrite(int input, int output) const override { return input == 0 && output == 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = task * kNumbersPerTask, count = std::min(kNumbersPerTask, elements_ - begin);
    if (count <= 0) return;
    const DropoutRule rule{keyOf(args.in[1]), threshold_, scale_};
    bool *mask = hasMask_ ? static_cast<bool *>(args.out[1]) + begin : nullptr;
    dropElements(rule, static_cast<uint64_t>(begin / 4), static_cast<const float *>(args.in[0]) + begin,
                 static_cast<float *>(args.out[0]) + begin, mask, count);
  }

 private:
  int64_t elements_;
  uint32_t threshold_;
  double scale_;
  bool hasMask_;
};

std::unique_ptr<executable::Kernel> createDropout(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const TensorInfo &x = request.inputs[0].info;
  if (x.dataType() != DataType::FLOAT) return reason = "it takes FLOAT only: got " + toText(x.dataType()), nullptr;
  const Op &op = *request.op;
  if (op.isIdentity()) return reason = "without training it is a copy", nullptr;
  return std::make_unique<DropoutKernel>(x.nelms(), op.attrFloat("ratio"),
                                         request.outputs.size() > 1 && request.outputs[1].connected);
}

class UniformKernel final : public executable::HostKernel {
 public:
  UniformKernel(int64_t elements, float low, float high) : elements_(elements), low_(low), high_(high) {}
  std::string name() const override { return "uniform numbers"; }
  int tasks() const override { return tasksOf(elements_); }
  int64_t scratchBytes() const override { return kNumbersPerTask * static_cast<int64_t>(sizeof(uint32_t)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = task * kNumbersPerTask, count = std::min(kNumbersPerTask, elements_ - begin);
    if (count <= 0) return;
    auto *words = static_cast<uint32_t *>(args.scratch);
    randomWords(keyOf(args.in[0]), static_cast<uint64_t>(begin / 4), (count + 3) / 4, words);
    float *y = static_cast<float *>(args.out[0]) + begin;
    // Rounding may give `high`, which is not part of the interval.
    const float last = high_ > low_ ? std::nextafter(high_, -std::numeric_limits<float>::infinity())
                                    : std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < count; ++i) y[i] = std::min(low_ + uniformFromWord(words[i]) * (high_ - low_), last);
  }

 private:
  int64_t elements_;
  float low_, high_;
};

std::unique_ptr<executable::Kernel> createUniform(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const TensorInfo &y = request.outputs[0].info;
  if (y.dataType() != DataType::FLOAT) return reason = "it makes FLOAT only: got " + toText(y.dataType()), nullptr;
  return std::make_unique<UniformKernel>(y.nelms(), request.op->attrFloat("low"), request.op->attrFloat("high"));
}

class RoundingKernel final : public executable::HostKernel {
 public:
  RoundingKernel(int64_t elements, uint32_t stream, bool toHalf)
      : elements_(elements), stream_(stream), toHalf_(toHalf) {}
  std::string name() const override { return "stochastic rounding"; }
  int tasks() const override { return tasksOf(elements_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = task * kNumbersPerTask, count = std::min(kNumbersPerTask, elements_ - begin);
    if (count <= 0) return;
    roundElements({keyOf(args.in[1]), stream_, toHalf_}, static_cast<uint64_t>(begin / 4),
                  static_cast<const float *>(args.in[0]) + begin, static_cast<uint16_t *>(args.out[0]) + begin, count);
  }

 private:
  int64_t elements_;
  uint32_t stream_;
  bool toHalf_;
};

std::unique_ptr<executable::Kernel> createRounding(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const TensorInfo &y = request.outputs[0].info;
  return std::make_unique<RoundingKernel>(y.nelms(), static_cast<uint32_t>(request.op->attrInt("stream")),
                                          y.dataType() == DataType::FLOAT16);
}

constexpr Entry kRandomKernels[] = {{"Dropout", createDropout},
                                    {"DropoutGrad", createDropout},
                                    {"RandomUniform", createUniform},
                                    {"RoundStochastically", createRounding}};

}  // namespace

std::span<const Entry> randomKernels() { return kRandomKernels; }

}  // namespace popart::cpu
