// Bounds of sums in registers. Compiled once per instruction set; only for .cpp files that Highway compiles so.
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

// The bound where v is beyond it, else v: as Relu and Clip, which keep what is no number and the signs of zeros. On x86
// that is one instruction, which gives its second operand in these cases.
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
