// The gradient of softmax for one vector of elements. Compiled once per instruction set; only for .cpp files that
// Highway compiles this way.
// Invariant: a row whose gradients are all 0 has gradient 0, even if its outputs are NaN. Fully masked scores have such
// outputs, which networks replace by numbers.
#if defined(POPART_CPU_SOFTMAX_GRADIENT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_SOFTMAX_GRADIENT_INL_HPP
#undef POPART_CPU_SOFTMAX_GRADIENT_INL_HPP
#else
#define POPART_CPU_SOFTMAX_GRADIENT_INL_HPP
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/rows.hpp"
#include "backends/cpu/vector/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace softmax {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// y factor; 0 if the factor is 0.
HWY_INLINE V weighted(V y, V factor) { return hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(D())), hn::Mul(y, factor)); }

// y (g - shift - sum) for probabilities y; g - exp(y) sum for logarithms y.
HWY_INLINE V gradient(SoftmaxForm form, V y, V g, V shift, V sum) {
  if (form == SoftmaxForm::kProbability) return weighted(y, hn::Sub(hn::Sub(g, shift), sum));
  return hn::IfThenElse(hn::Eq(sum, hn::Zero(D())), g, hn::NegMulAdd(math::exponential(y), sum, g));
}

}  // namespace softmax
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
