// Bounds of sums in registers. Compiled once per instruction set; only for .cpp files that Highway compiles this way.
#if defined(POPART_CPU_BOUNDS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_BOUNDS_INL_HPP
#undef POPART_CPU_BOUNDS_INL_HPP
#else
#define POPART_CPU_BOUNDS_INL_HPP
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace bounds {
namespace hn = hwy::HWY_NAMESPACE;
using V = hn::Vec<hn::ScalableTag<float>>;

// The bound if v is below it, else v. Like Relu and Clip, this keeps NaN and the signs of zeros. On x86 it is one
// instruction, which returns its second operand in these cases.
HWY_INLINE V atLeast(V v, V low) {
#if HWY_ARCH_X86
  return hn::Max(low, v);
#else
  return hn::IfThenElse(hn::Lt(v, low), low, v);
#endif
}
HWY_INLINE V atMost(V v, V high) {
#if HWY_ARCH_X86
  return hn::Min(high, v);
#else
  return hn::IfThenElse(hn::Gt(v, high), high, v);
#endif
}

}  // namespace bounds
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
