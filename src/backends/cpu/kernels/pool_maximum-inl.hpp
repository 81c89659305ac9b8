// The greater of two values of a pooling window, where `first` precedes `second` in memory. The first NaN wins, and the
// first of equal values. Compiled once per instruction set; only for .cpp files that Highway compiles this way.
#if defined(POPART_CPU_POOL_MAXIMUM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_POOL_MAXIMUM_INL_HPP
#undef POPART_CPU_POOL_MAXIMUM_INL_HPP
#else
#define POPART_CPU_POOL_MAXIMUM_INL_HPP
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace pools {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Whether v replaces best: greater, or the first NaN.
HWY_INLINE hn::Mask<D> replaces(V v, V best) { return hn::AndNot(hn::IsNaN(best), hn::Not(hn::Le(v, best))); }

struct Maximum {
  static HWY_INLINE V of(V first, V second) { return hn::IfThenElse(replaces(second, first), second, first); }
};
// For values without NaN; one instruction.
struct NumberMaximum {
  static HWY_INLINE V of(V first, V second) {
#if HWY_ARCH_X86
    return hn::Max(second, first);  // the instruction returns its second operand if both are equal
#else
    return hn::IfThenElse(hn::Lt(first, second), second, first);
#endif
  }
};

}  // namespace pools
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
