// DequantizePacked: weights of 2, 4 or 8 bits as floats. A task has whole rows.
#include <algorithm>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "base/element_types.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// T: type of the floats. kBits: bits of a number.
template <class T, int kBits>
class UnpackKernel final : public executable::HostKernel {
 public:
  explicit UnpackKernel(const KernelRequest &request)
      : rows_(request.outputs[0].info.shape()[0]),
        columns_(request.outputs[0].info.shape()[1]),
        bytes_(request.inputs[0].info.shape()[1]),
        blocks_(request.inputs[1].info.shape()[1]),
        block_(request.op->attrInt("block_size")),
        hasZeros_(request.op->hasInput(2)),
        middle_(request.op->attrFloat("zero_point")),
        tasks_(taskCount(rows_ * columns_, 1 << 14, rows_)) {}
  std::string name() const override { return "unpack"; }
  int tasks() const override { return static_cast<int>(tasks_); }

  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = rows_ * task / tasks_, end = rows_ * (task + 1) / tasks_;
    const auto *packed = static_cast<const uint8_t *>(args.in[0]);
    const T *scales = static_cast<const T *>(args.in[1]),
            *zeros = hasZeros_ ? static_cast<const T *>(args.in[2]) : nullptr;
    T *y = static_cast<T *>(args.out[0]);
    for (int64_t r = begin; r < end; ++r)
      for (int64_t b = 0; b < blocks_; ++b) {
        const int64_t first = b * block_, count = std::min(block_, columns_ - first), at = r * blocks_ + b;
        const Wide zero = zeros ? static_cast<Wide>(zeros[at]) : static_cast<Wide>(middle_);
        unpack(packed + r * bytes_, first, count, static_cast<Wide>(scales[at]), zero, y + r * columns_ + first);
      }
  }

 private:
  static constexpr int64_t kPerByte = 8 / kBits;
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

  // In two steps, which compilers vectorise: bytes to numbers, and numbers to floats.
  static void unpack(const uint8_t *packed, int64_t first, int64_t count, Wide scale, Wide zero, T *y) {
    const auto toFloats = [&](const uint8_t *numbers, int64_t some, T *to) {
      for (int64_t i = 0; i < some; ++i) to[i] = static_cast<T>((static_cast<Wide>(numbers[i]) - zero) * scale);
    };
    if constexpr (kBits == 8) return toFloats(packed + first, count, y);
    constexpr int64_t kAtOnce = 64;
    constexpr int kMask = (1 << kBits) - 1;
    uint8_t numbers[kAtOnce + 2 * kPerByte];
    for (int64_t at = 0; at < count; at += kAtOnce) {
      const int64_t some = std::min(kAtOnce, count - at), skipped = (first + at) % kPerByte,
                    bytes = (skipped + some + kPerByte - 1) / kPerByte;
      const uint8_t *from = packed + (first + at) / kPerByte;
      for (int64_t b = 0; b < bytes; ++b)
        for (int64_t i = 0; i < kPerByte; ++i)
          numbers[b * kPerByte + i] = static_cast<uint8_t>((from[b] >> (i * kBits)) & kMask);
      toFloats(numbers + skipped, some, y + at);
    }
  }

  int64_t rows_, columns_, bytes_, blocks_, block_;
  bool hasZeros_;
  float middle_;
  int64_t tasks_;
};

template <class T>
std::unique_ptr<executable::Kernel> unpackOf(const KernelRequest &request) {
  switch (request.op->attrInt("bits")) {
    case 2:
      return std::make_unique<UnpackKernel<T, 2>>(request);
    case 4:
      return std::make_unique<UnpackKernel<T, 4>>(request);
    default:
      return std::make_unique<UnpackKernel<T, 8>>(request);
  }
}

std::unique_ptr<executable::Kernel> createUnpack(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  std::unique_ptr<executable::Kernel> kernel;
  if (!forElement(kFloatElements, request.inputs[1].info.dataType(),
                  [&](auto kind) { kernel = unpackOf<decltype(kind)>(request); }))
    reason = "it makes no elements of type " + toText(request.inputs[1].info.dataType());
  return kernel;
}

constexpr Entry kPackedWeightKernels[] = {{"DequantizePacked", createUnpack}};

}  // namespace

std::span<const Entry> packedWeightKernels() { return kPackedWeightKernels; }

}  // namespace popart::cpu
