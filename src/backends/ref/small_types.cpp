// Reference kernels of FLOAT8: casts with a scale, and the check of scales. Scaled values are computed in double, which
// holds them exactly.
#include <cmath>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "base/small_types.hpp"

namespace popart::ref {
namespace {

void pow2ScaleThenCast(const Context &c) {
  const auto scale = static_cast<int>(loadInt(c.in[1], 0));
  for (int64_t i = 0; i < c.in[0].size(); ++i)
    store(c.out[0], i, std::ldexp(load(c.in[0], i), scale), {.saturate = false});
}

void castThenPow2Scale(const Context &c) {
  const auto scale = static_cast<int>(loadInt(c.in[1], 0));
  for (int64_t i = 0; i < c.in[0].size(); ++i) store(c.out[0], i, std::ldexp(load(c.in[0], i), scale));
}

void checkLog2Scale(const Context &c) {
  const int64_t scale = loadInt(c.in[0], 0);
  if (scale < -32 || scale > 31)
    c.run.report({.kind = executable::FailureKind::Log2Scale,
                  .value = scale,
                  .low = -32,
                  .high = 31,
                  .subject = c.op.attrString("checked_op").c_str()});
}

constexpr Entry kFloat8Kernels[] = {
    {"Pow2ScaleThenCast", pow2ScaleThenCast},
    {"CastThenPow2Scale", castThenPow2Scale},
    {"CheckLog2Scale", checkLog2Scale},
};

}  // namespace

std::span<const Entry> smallTypeKernels() { return kFloat8Kernels; }

}  // namespace popart::ref
