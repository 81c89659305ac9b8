// Float instructions of the element-wise engine as vector functions; only for element_ops.cpp, which compiles them once
// per instruction set. Functions without a vector form here are computed in double by the C library, element by
// element. Invariant: NaN operands give NaN unless the operator's definition says otherwise.
#if defined(POPART_CPU_FLOAT_OPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_FLOAT_OPS_INL_HPP
#undef POPART_CPU_FLOAT_OPS_INL_HPP
#else
#define POPART_CPU_FLOAT_OPS_INL_HPP
#endif

// clang-format off
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/activation-inl.hpp"
#include "backends/cpu/kernels/update-inl.hpp"
// clang-format on
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace floats {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
using activation::constant;

HWY_INLINE V zero() { return hn::Zero(D()); }
HWY_INLINE V select(M m, V yes, V no) { return hn::IfThenElse(m, yes, no); }
HWY_INLINE V keepNan(V x, V y) { return select(hn::IsNaN(x), x, y); }
HWY_INLINE V asVector(M m) { return hn::VecFromMask(D(), m); }

HWY_INLINE V expm1(V x) { return keepNan(x, hn::Expm1(D(), hn::Min(x, constant(104.0f)))); }
HWY_INLINE V logarithm(V x) {
  const V infinity = constant(std::numeric_limits<float>::infinity());
  V y = select(hn::Eq(x, infinity), x, hn::Log(D(), x));
  y = select(hn::Eq(x, zero()), hn::Neg(infinity), y);
  return select(hn::Ge(x, zero()), y, constant(std::numeric_limits<float>::quiet_NaN()));
}
// max(x, 0) + log(1 + e^-|x|)
HWY_INLINE V softplus(V x) {
  const V tail = hn::Log1p(D(), activation::exponential(hn::Neg(hn::Abs(x))));
  return keepNan(x, hn::Add(hn::Max(x, zero()), tail));
}
HWY_INLINE V clamp(V x, V low, V high) {
  x = select(hn::Lt(x, low), low, x);
  return select(hn::Gt(x, high), high, x);
}

// One operand; p are the instruction's parameters.
#define POPART_UNARY(NAME, ...)                                                    \
  struct NAME {                                                                    \
    static HWY_INLINE V call(V x, [[maybe_unused]] const float *p) { __VA_ARGS__ } \
  };
POPART_UNARY(Copy, return x;)
POPART_UNARY(Abs, return hn::Abs(x);)
POPART_UNARY(Neg, return hn::Neg(x);)
POPART_UNARY(Reciprocal, return hn::Div(constant(1.0f), x);)
POPART_UNARY(Sqrt, return hn::Sqrt(x);)
POPART_UNARY(Exp, return activation::exponential(x);)
POPART_UNARY(Log, return logarithm(x);)
POPART_UNARY(Erf, return keepNan(x, activation::errorFunction(x));)
POPART_UNARY(Tanh, return activation::hyperbolicTangent(x);)
POPART_UNARY(Ceil, return hn::Ceil(x);)
POPART_UNARY(Floor, return hn::Floor(x);)
POPART_UNARY(NearbyInt, return hn::CopySign(hn::Round(x), x);)
POPART_UNARY(Sign, return keepNan(x, select(hn::Eq(x, zero()), zero(), hn::CopySign(constant(1.0f), x)));)
POPART_UNARY(Relu, return activation::activate(Activation::kRelu, x);)
POPART_UNARY(LeakyRelu, return select(hn::Lt(x, zero()), hn::Mul(constant(p[0]), x), x);)
POPART_UNARY(ThresholdedRelu, return select(hn::Le(x, constant(p[0])), zero(), x);)
POPART_UNARY(Elu, return select(hn::Lt(x, zero()), hn::Mul(constant(p[0]), expm1(x)), x);)
POPART_UNARY(Selu, return hn::Mul(constant(p[1]), select(hn::Lt(x, zero()), hn::Mul(constant(p[0]), expm1(x)), x));)
POPART_UNARY(Celu, return select(hn::Lt(x, zero()), hn::Mul(constant(p[0]), expm1(hn::Div(x, constant(p[0])))), x);)
POPART_UNARY(Shrink, {
  const V bias = constant(p[0]), limit = constant(p[1]);
  return keepNan(
      x, select(hn::Lt(x, hn::Neg(limit)), hn::Add(x, bias), hn::IfThenElseZero(hn::Gt(x, limit), hn::Sub(x, bias))));
})
POPART_UNARY(Clip, return clamp(x, constant(p[0]), constant(p[1]));)
POPART_UNARY(Sigmoid, return activation::sigmoid(x);)
POPART_UNARY(HardSigmoid, return clamp(hn::Add(hn::Mul(constant(p[0]), x), constant(p[1])), zero(), constant(1.0f));)
POPART_UNARY(HardSwish, {
  const V three = constant(3.0f), inner = hn::Mul(x, hn::Add(hn::Div(x, constant(6.0f)), constant(0.5f)));
  return select(hn::Le(x, hn::Neg(three)), zero(), select(hn::Ge(x, three), x, inner));
})
POPART_UNARY(Softplus, return softplus(x);)
POPART_UNARY(Softsign, return hn::Div(x, hn::Add(constant(1.0f), hn::Abs(x)));)
POPART_UNARY(Mish, return hn::Mul(x, activation::hyperbolicTangent(softplus(x)));)
POPART_UNARY(Swish, return hn::Mul(x, activation::sigmoid(hn::Mul(constant(p[0]), x)));)
POPART_UNARY(Gelu, return activation::geluTanh(x);)
POPART_UNARY(GeluErf, return activation::gelu(x);)
POPART_UNARY(Scale, return hn::Mul(constant(p[0]), x);)
POPART_UNARY(IsNan, return asVector(hn::IsNaN(x));)
POPART_UNARY(IsInf, {
  const V infinity = constant(std::numeric_limits<float>::infinity());
  V found = zero();
  if (p[0] != 0) found = asVector(hn::Eq(x, hn::Neg(infinity)));
  if (p[1] != 0) found = hn::Or(found, asVector(hn::Eq(x, infinity)));
  return found;
})
POPART_UNARY(NotZero, return hn::Not(asVector(hn::Eq(x, zero())));)
POPART_UNARY(Not, return hn::Not(x);)
POPART_UNARY(MaskToFloat, return hn::And(x, constant(1.0f));)
#undef POPART_UNARY

// Two operands.
#define POPART_BINARY(NAME, ...)                       \
  struct NAME {                                        \
    static HWY_INLINE V call(V a, V b) { __VA_ARGS__ } \
  };
POPART_BINARY(Add, return hn::Add(a, b);)
POPART_BINARY(Sub, return hn::Sub(a, b);)
POPART_BINARY(Mul, return hn::Mul(a, b);)
POPART_BINARY(Div, return hn::Div(a, b);)
POPART_BINARY(Max, return select(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b);)
POPART_BINARY(Min, return select(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b);)
POPART_BINARY(PRelu, return select(hn::Lt(a, zero()), hn::Mul(b, a), a);)
POPART_BINARY(ReluGrad, return activation::gradient(Activation::kRelu, b, a);)
POPART_BINARY(GeluGrad, return activation::gradient(Activation::kGeluTanh, b, a);)
POPART_BINARY(GeluErfGrad, return activation::gradient(Activation::kGelu, b, a);)
POPART_BINARY(SigmoidGrad, return activation::gradient(Activation::kSigmoid, b, a);)
POPART_BINARY(TanhGrad, return activation::gradient(Activation::kTanh, b, a);)
POPART_BINARY(SiluGrad, return activation::gradient(Activation::kSilu, b, a);)
POPART_BINARY(Equal, return asVector(hn::Eq(a, b));)
POPART_BINARY(Less, return asVector(hn::Lt(a, b));)
POPART_BINARY(LessOrEqual, return asVector(hn::Le(a, b));)
POPART_BINARY(And, return hn::And(a, b);)
POPART_BINARY(Or, return hn::Or(a, b);)
POPART_BINARY(Xor, return hn::Xor(a, b);)
#undef POPART_BINARY

using lanes::AllLanes;
using lanes::FirstLanes;

template <class F>
void map1(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out);
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(F::call(hn::LoadU(D(), x + i), p), D(), y + i);
  if (i == count) return;
  const FirstLanes tail(count - i);
  tail.store(F::call(tail.load(x + i), p), y + i);
}

template <class F, ScalarOperands kScalars>
void map2(const void *const *in, void *out, int64_t count, const float *) {
  const auto *a = static_cast<const float *>(in[0]), *b = static_cast<const float *>(in[1]);
  auto *y = static_cast<float *>(out);
  constexpr bool kScalarA = (kScalars & 1) != 0, kScalarB = (kScalars & 2) != 0;
  const V sa = kScalarA ? hn::Set(D(), *a) : zero(), sb = kScalarB ? hn::Set(D(), *b) : zero();
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(F::call(kScalarA ? sa : hn::LoadU(D(), a + i), kScalarB ? sb : hn::LoadU(D(), b + i)), D(), y + i);
  if (i == count) return;
  const FirstLanes tail(count - i);
  tail.store(F::call(kScalarA ? sa : tail.load(a + i), kScalarB ? sb : tail.load(b + i)), y + i);
}

inline void where(const void *const *in, void *out, int64_t count, const float *) {
  const auto *m = static_cast<const float *>(in[0]), *a = static_cast<const float *>(in[1]),
             *b = static_cast<const float *>(in[2]);
  auto *y = static_cast<float *>(out);
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(select(hn::MaskFromVec(hn::LoadU(D(), m + i)), hn::LoadU(D(), a + i), hn::LoadU(D(), b + i)), D(),
               y + i);
  if (i == count) return;
  const FirstLanes tail(count - i);
  tail.store(select(hn::MaskFromVec(tail.load(m + i)), tail.load(a + i), tail.load(b + i)), y + i);
}

// Functions of the C library, in double.
template <double (*F)(double)>
void library1(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(F(static_cast<double>(x[i])));
}
template <double (*F)(double, double), ScalarOperands kScalars>
void library2(const void *const *in, void *out, int64_t count, const float *) {
  const auto *a = static_cast<const float *>(in[0]), *b = static_cast<const float *>(in[1]);
  auto *y = static_cast<float *>(out);
  const double firstA = count > 0 ? a[0] : 0, firstB = count > 0 ? b[0] : 0;
  for (int64_t i = 0; i < count; ++i) {
    const double va = kScalars & 1 ? firstA : static_cast<double>(a[i]),
                 vb = kScalars & 2 ? firstB : static_cast<double>(b[i]);
    y[i] = static_cast<float>(F(va, vb));
  }
}
inline double flooredRemainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
inline void incrementMod(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out);
  for (int64_t i = 0; i < count; ++i)
    y[i] = static_cast<float>(flooredRemainder(static_cast<double>(x[i]) + static_cast<double>(p[0]), p[1]));
}

}  // namespace floats
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
