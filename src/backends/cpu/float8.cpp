// Casts between FLOAT8 and wider floats, cut into tasks; values are the reference's.
#include <algorithm>
#include <cmath>

#include <popart/half.hpp>
#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "base/float8.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int64_t kPerTask = 1 << 14;  // elements

// Wide is float or Half.
template <class Wide, bool kToFloat8>
class Float8CastKernel final : public executable::HostKernel {
 public:
  Float8CastKernel(int64_t elements, DataType type) : elements_(elements), type_(type) {}
  std::string name() const override { return kToFloat8 ? "cast to float8" : "cast from float8"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, (elements_ + kPerTask - 1) / kPerTask)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int scale = *static_cast<const int32_t *>(args.in[1]);
    const int64_t begin = task * kPerTask, end = std::min(elements_, begin + kPerTask);
    if constexpr (kToFloat8) {
      const auto *x = static_cast<const Wide *>(args.in[0]);
      auto *y = static_cast<uint8_t *>(args.out[0]);
      for (int64_t i = begin; i < end; ++i)
        y[i] = floatToFloat8(type_, std::ldexp(static_cast<double>(static_cast<float>(x[i])), scale));
    } else {
      // the scaled value of each code
      Wide values[256];
      const auto plain = float8Values(type_);
      for (size_t code = 0; code < 256; ++code)
        values[code] = static_cast<Wide>(static_cast<float>(std::ldexp(static_cast<double>(plain[code]), scale)));
      const auto *x = static_cast<const uint8_t *>(args.in[0]);
      auto *y = static_cast<Wide *>(args.out[0]);
      for (int64_t i = begin; i < end; ++i) y[i] = values[x[i]];
    }
  }

 private:
  int64_t elements_;
  DataType type_;
};

template <bool kToFloat8>
std::unique_ptr<executable::Kernel> createCast(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const TensorInfo &from = request.inputs[0].info, &to = request.outputs[0].info;
  const DataType narrow = kToFloat8 ? to.dataType() : from.dataType();
  if ((kToFloat8 ? from : to).dataType() == DataType::FLOAT16)
    return std::make_unique<Float8CastKernel<Half, kToFloat8>>(from.nelms(), narrow);
  return std::make_unique<Float8CastKernel<float, kToFloat8>>(from.nelms(), narrow);
}

constexpr Entry kEntries[] = {{"Pow2ScaleThenCast", createCast<true>}, {"CastThenPow2Scale", createCast<false>}};

}  // namespace

std::span<const Entry> float8Kernels() { return kEntries; }

}  // namespace popart::cpu
