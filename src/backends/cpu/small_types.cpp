// Casts from and to element types of at most eight bits, with and without a scale, split into tasks; values are those
// of the reference. Results for bytes are looked up in a table, so 256 values are converted instead of all elements.
#include "base/small_types.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "base/element_types.hpp"
#include "ops/math/cast.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int64_t kElementsPerTask = 1 << 14;  // elements

// At least one operand has a small type. Scaled casts multiply by 2^s, where s is input 1, an INT32.
struct CastForm {
  int64_t elements;
  DataType from, to;
  bool scaled;
  SmallRounding rounding;
};

class CastKernel : public executable::HostKernel {
 public:
  explicit CastKernel(const CastForm &form) : form_(form) {}
  int tasks() const override {
    return static_cast<int>(std::max<int64_t>(1, (form_.elements + kElementsPerTask - 1) / kElementsPerTask));
  }

 protected:
  int scaleOf(const KernelArgs &args) const { return form_.scaled ? *static_cast<const int32_t *>(args.in[1]) : 0; }
  const CastForm form_;
};

// From a small type to elements of To's memory.
template <class To>
class FromSmallKernel final : public CastKernel {
 public:
  explicit FromSmallKernel(const CastForm &form) : CastKernel(form) { fill(0, converted_); }
  std::string name() const override { return "cast from small type"; }
  void run(const KernelArgs &args, int task) const noexcept override {
    Table scaled;
    if (form_.scaled) fill(scaleOf(args), scaled);
    const Table &table = form_.scaled ? scaled : converted_;
    const auto *x = static_cast<const uint8_t *>(args.in[0]);
    auto *y = static_cast<To *>(args.out[0]);
    const int64_t begin = task * kElementsPerTask, end = std::min(form_.elements, begin + kElementsPerTask);
    for (int64_t i = begin; i < end; ++i) y[i] = table[x[i]];
  }

 private:
  using Table = std::array<To, 256>;
  void fill(int scale, Table &table) const {
    const std::span<const float, 256> values = smallValues(form_.from);
    const SmallFormat *to = smallFormat(form_.to);
    for (size_t byte = 0; byte < table.size(); ++byte) {
      const double value = std::ldexp(static_cast<double>(values[byte]), scale);
      if constexpr (std::is_same_v<To, uint8_t>)
        table[byte] = to ? smallCode(*to, value, form_.rounding) : toElement<To>(value);
      else
        table[byte] = toElement<To>(value);
    }
  }
  Table converted_;
};

template <class From>
class ToSmallKernel final : public CastKernel {
 public:
  explicit ToSmallKernel(const CastForm &form) : CastKernel(form), format_(*smallFormat(form.to)) {}
  std::string name() const override { return "cast to small type"; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = task * kElementsPerTask, count = std::min(form_.elements, begin + kElementsPerTask) - begin;
    const From *x = static_cast<const From *>(args.in[0]) + begin;
    uint8_t *y = static_cast<uint8_t *>(args.out[0]) + begin;
    const int scale = scaleOf(args);
    if constexpr (std::is_integral_v<From>) {
      if (!format_.isFloat) {  // the low bits stay
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<uint8_t>(x[i]) & ((1 << format_.bits) - 1);
        return;
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(x[i]);
      y[i] = smallCode(format_, scale == 0 ? value : std::ldexp(value, scale), form_.rounding);
    }
  }

 private:
  const SmallFormat format_;
};

std::unique_ptr<executable::Kernel> createCast(const KernelRequest &request, const CastForm &form,
                                               std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  std::unique_ptr<executable::Kernel> kernel;
  if (isSmall(form.from) && isSmall(form.to))
    kernel = std::make_unique<FromSmallKernel<uint8_t>>(form);
  else if (isSmall(form.from))
    forElement(kRealElements, form.to,
               [&](auto zero) { kernel = std::make_unique<FromSmallKernel<decltype(zero)>>(form); });
  else
    forElement(kRealElements, form.from,
               [&](auto zero) { kernel = std::make_unique<ToSmallKernel<decltype(zero)>>(form); });
  return kernel;
}

std::unique_ptr<executable::Kernel> createPlainCast(const KernelRequest &request, std::string &reason) {
  const TensorInfo &from = request.inputs[0].info, &to = request.outputs[0].info;
  if (!isSmall(from.dataType()) && !isSmall(to.dataType())) return nullptr;  // keeps the earlier reason
  return createCast(request,
                    {from.nelms(), from.dataType(), to.dataType(), false, ops::smallRounding(request.op->attributes())},
                    reason);
}

// Values too large for the type become NaN, as in PopART.
std::unique_ptr<executable::Kernel> createScaledCast(const KernelRequest &request, std::string &reason) {
  const TensorInfo &from = request.inputs[0].info, &to = request.outputs[0].info;
  return createCast(request, {from.nelms(), from.dataType(), to.dataType(), true, {.saturate = false}}, reason);
}

constexpr Entry kSmallTypeKernels[] = {
    {"Cast", createPlainCast}, {"Pow2ScaleThenCast", createScaledCast}, {"CastThenPow2Scale", createScaledCast}};

}  // namespace

std::span<const Entry> smallTypeKernels() { return kSmallTypeKernels; }

}  // namespace popart::cpu
