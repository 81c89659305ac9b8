// Lattice steps, compiled once per instruction set by Highway. Terms are scaled to the greatest of their exponents
// before they are added; terms of at most 2^-127 relative to it add nothing.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/ctc_steps.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/ctc_steps.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/vector/math-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

struct Scaled {
  V mantissa, exponent;
};

// 2^n for whole n; 0 below -126, 2^127 above 127.
HWY_INLINE V powerOfTwo(V n) {
  const V within = hn::Min(hn::Max(n, hn::Set(D(), -127.0f)), hn::Set(D(), 127.0f));
  const auto biased = hn::Add(hn::ConvertTo(DI(), within), hn::Set(DI(), 127));
  return hn::BitCast(D(), hn::ShiftLeft<23>(biased));
}

// e^x with a mantissa in [0.7, 1.42]. From 2^21 on the exponent alone has all the digits that x has.
HWY_INLINE Scaled exponentialOf(V x) {
  const V one = hn::Set(D(), 1.0f), magnitude = hn::Abs(x);
  const auto isUsual = hn::Lt(magnitude, hn::Set(D(), 2097152.0f));
  const auto usual = math::scaledExponential(hn::IfThenElseZero(isUsual, x));
  const V n = hn::Sub(usual.shifted, hn::Set(D(), 12582912.0f));
  if (HWY_LIKELY(hn::AllTrue(D(), isUsual))) return {usual.p, n};
  const auto isFinite = hn::Lt(magnitude, math::infinity());
  const V large = hn::Max(hn::Round(hn::Mul(x, hn::Set(D(), 1.44269504f))), hn::Set(D(), kCtcNever));
  const V extreme = hn::IfThenZeroElse(hn::Eq(x, hn::Neg(math::infinity())), x);  // NaN and infinity are kept
  return {hn::IfThenElse(isUsual, usual.p, hn::IfThenElse(isFinite, one, extreme)),
          hn::IfThenElse(isUsual, n, hn::IfThenElseZero(isFinite, large))};
}

// The sum of the probabilities from which state s is reached: of s, s + kFrom and, through `skip`, s + 2 kFrom. The
// mantissa is below 6.
template <int kFrom, class Lanes>
HWY_INLINE Scaled transitions(Lanes lanes, const CtcRow &row, int64_t s, V skip) {
  const V stay = lanes.load(row.exponents + s), step = lanes.load(row.exponents + s + kFrom),
          jump = hn::Add(lanes.load(row.exponents + s + 2 * kFrom), skip);
  const V greatest = hn::Max(hn::Max(stay, step), jump);
  V sum = hn::Mul(lanes.load(row.mantissas + s), powerOfTwo(hn::Sub(stay, greatest)));
  sum = hn::MulAdd(lanes.load(row.mantissas + s + kFrom), powerOfTwo(hn::Sub(step, greatest)), sum);
  sum = hn::MulAdd(lanes.load(row.mantissas + s + 2 * kFrom), powerOfTwo(hn::Sub(jump, greatest)), sum);
  return {sum, greatest};
}

// Stores sum · probability with the mantissa scaled to [1, 2). 0, NaN and infinity are stored unchanged.
template <class Lanes>
HWY_INLINE void storeProduct(Lanes lanes, const Scaled &sum, const Scaled &probability, const CtcRow &next, int64_t s) {
  const V product = hn::Mul(sum.mantissa, probability.mantissa);
  const auto isUsual = hn::And(hn::Gt(product, hn::Zero(D())), hn::Lt(product, math::infinity()));
  const auto bits = hn::BitCast(DI(), product);
  const V shift = hn::ConvertTo(D(), hn::Sub(hn::ShiftRight<23>(bits), hn::Set(DI(), 127)));
  const V mantissa = hn::BitCast(D(), hn::Or(hn::And(bits, hn::Set(DI(), 0x7fffff)), hn::Set(DI(), 0x3f800000)));
  const V never = hn::Set(D(), kCtcNever);
  const V exponent = hn::Max(hn::Add(hn::Add(sum.exponent, probability.exponent), shift), never);
  lanes.store(hn::IfThenElse(isUsual, mantissa, product), next.mantissas + s);
  lanes.store(hn::IfThenElse(isUsual, exponent, never), next.exponents + s);
}

template <class F>
HWY_INLINE void forStates(int64_t count, F &&f) {
  int64_t s = 0;
  for (; s + kLanes <= count; s += kLanes) f(AllLanes(), s);
  if (s < count) f(FirstLanes(count - s), s);
}

void stepForward(const CtcStates &states, const CtcRow &previous, const float *logProbs, const CtcRow &next) {
  forStates(states.count, [&](auto lanes, int64_t s) {
    const Scaled sum = transitions<-1>(lanes, previous, s, lanes.load(states.skips + s));
    storeProduct(lanes, sum, exponentialOf(lanes.load(logProbs + s)), next, s);
  });
}

void stepBackward(const CtcStates &states, const CtcRow &following, const float *logProbs, const CtcRow &forward,
                  const CtcLikelihood &likelihood, const CtcRow &next, float *expected) {
  const V inverse = hn::Set(D(), 1.0f / likelihood.mantissa), exponent = hn::Set(D(), likelihood.exponent);
  forStates(states.count, [&](auto lanes, int64_t s) {
    const Scaled sum = transitions<1>(lanes, following, s, lanes.load(states.skips + s + 2));
    const V both = hn::Mul(lanes.load(forward.mantissas + s), sum.mantissa);
    const V power = powerOfTwo(hn::Sub(hn::Add(lanes.load(forward.exponents + s), sum.exponent), exponent));
    storeProduct(lanes, sum, exponentialOf(lanes.load(logProbs + s)), next, s);
    lanes.store(hn::Mul(hn::Mul(both, inverse), power), expected + s);
  });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(stepForward);
HWY_EXPORT(stepBackward);

void ctcForward(const CtcStates &states, const CtcRow &previous, const float *logProbs, const CtcRow &next) noexcept {
  HWY_DYNAMIC_DISPATCH(stepForward)(states, previous, logProbs, next);
}
void ctcBackward(const CtcStates &states, const CtcRow &following, const float *logProbs, const CtcRow &forward,
                 const CtcLikelihood &likelihood, const CtcRow &next, float *expected) noexcept {
  HWY_DYNAMIC_DISPATCH(stepBackward)(states, following, logProbs, forward, likelihood, next, expected);
}

}  // namespace popart::cpu
#endif
