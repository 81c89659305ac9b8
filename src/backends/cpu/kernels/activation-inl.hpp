// Vector forms of the activations, compiled once per instruction set; only for the .cpp files of this folder.
// Invariant: lanes are independent, so a value does not depend on its position or on the vector width.
#if defined(POPART_CPU_ACTIVATION_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_ACTIVATION_INL_HPP
#undef POPART_CPU_ACTIVATION_INL_HPP
#else
#define POPART_CPU_ACTIVATION_INL_HPP
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace activation {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V constant(float value) { return hn::Set(D(), value); }

// exp for any argument: above 104 the library's polynomial leaves its range, and it maps NaN to zero.
HWY_INLINE V exponential(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(D(), hn::Min(constant(104.0f), x))); }

// 1 / (1 + e^-x)
HWY_INLINE V sigmoid(V x) {
  const V one = constant(1.0f);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
}

// Comparisons, not minimum and maximum, bound the argument: they let NaN through on every instruction set.
HWY_INLINE V hyperbolicTangent(V x) {
  const V limit = constant(20.0f);
  return hn::Tanh(D(), hn::IfThenElse(hn::Gt(hn::Abs(x), limit), hn::CopySign(limit, x), x));
}

// erf by two minimax polynomials: odd in x for |x| <= 0.92, else 1 - exp(p(|x|)). Error below 1 ulp with fma.
HWY_INLINE V errorFunction(V x) {
  const V t = hn::Min(constant(4.0f), hn::Abs(x));
  const V s = hn::Mul(t, t);
  V far = hn::MulAdd(constant(-1.72853470e-5f), t, constant(3.83197126e-4f));
  const V even = hn::MulAdd(constant(-3.88396438e-3f), t, constant(2.42546219e-2f));
  far = hn::MulAdd(far, s, even);
  far = hn::MulAdd(far, t, constant(-1.06777877e-1f));
  far = hn::MulAdd(far, t, constant(-6.34846687e-1f));
  far = hn::MulAdd(far, t, constant(-1.28717512e-1f));
  far = hn::Sub(constant(1.0f), hn::Exp(D(), hn::MulAdd(far, t, hn::Neg(t))));
  V near = constant(-5.96761703e-4f);
  near = hn::MulAdd(near, s, constant(4.99119423e-3f));
  near = hn::MulAdd(near, s, constant(-2.67681349e-2f));
  near = hn::MulAdd(near, s, constant(1.12819925e-1f));
  near = hn::MulAdd(near, s, constant(-3.76125336e-1f));
  near = hn::MulAdd(near, s, constant(1.28379166e-1f));
  near = hn::MulAdd(near, x, x);
  return hn::IfThenElse(hn::Gt(t, constant(0.921875f)), hn::CopySign(far, x), near);
}

HWY_INLINE V gelu(V x) {
  const V half = hn::Mul(constant(0.5f), x);
  return hn::MulAdd(half, errorFunction(hn::Mul(x, constant(0.70710678118654752f))), half);
}

HWY_INLINE V geluTanh(V x) {
  const V cube = hn::Mul(hn::Mul(x, x), x);
  const V inner = hn::Mul(constant(0.79788456080286536f), hn::MulAdd(constant(0.044715f), cube, x));
  const V half = hn::Mul(constant(0.5f), x);
  return hn::MulAdd(half, hyperbolicTangent(inner), half);
}

HWY_INLINE V activate(Activation kind, V x) {
  switch (kind) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(D())), x);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluTanh:
      return geluTanh(x);
    case Activation::kSigmoid:
      return sigmoid(x);
    case Activation::kTanh:
      return hyperbolicTangent(x);
    case Activation::kSilu:
      return hn::Mul(x, sigmoid(x));
  }
  return x;
}

// d gelu / dx = Phi(x) + x phi(x). Phi(-t) = e^(-t^2/2) Q(t) for t >= 0, Q a minimax polynomial in 1 / (1 + 0.3 t) of
// relative error 6e-8 up to t = 14, so that one exponential serves both terms. Error of the slope below 4e-7.
HWY_INLINE V geluSlope(V x) {
  const V one = constant(1.0f);
  const V t = hn::Min(constant(14.0f), hn::Abs(x));
  const V bell = hn::Exp(D(), hn::Mul(hn::Mul(constant(-0.5f), t), t));
  const V r = hn::Div(one, hn::MulAdd(constant(0.3f), t, one));
  V q = constant(3.833426935e-2f);
  q = hn::MulAdd(q, r, constant(-1.689519670e-1f));
  q = hn::MulAdd(q, r, constant(2.282173201e-1f));
  q = hn::MulAdd(q, r, constant(-7.599960369e-2f));
  q = hn::MulAdd(q, r, constant(1.421850610e-1f));
  q = hn::MulAdd(q, r, constant(9.483297798e-2f));
  q = hn::MulAdd(q, r, constant(1.218820543e-1f));
  q = hn::MulAdd(q, r, constant(1.194930637e-1f));
  q = hn::MulAdd(q, r, constant(6.852912571e-6f));
  const V tail = hn::Mul(bell, q);
  const V area = hn::IfThenElse(hn::Lt(x, hn::Zero(D())), tail, hn::Sub(one, tail));
  return hn::MulAdd(hn::Mul(hn::CopySign(t, x), constant(0.39894228040143268f)), bell, area);
}

// d geluTanh / dx; beyond 10 the slope is 0 or 1, and the bound keeps x^3 finite.
HWY_INLINE V geluTanhSlope(V x) {
  const V limit = constant(10.0f);
  const V z = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), hn::CopySign(limit, x), x);
  const V square = hn::Mul(z, z);
  const V scale = constant(0.79788456080286536f), half = constant(0.5f), one = constant(1.0f);
  const V t = hyperbolicTangent(hn::Mul(scale, hn::MulAdd(hn::Mul(constant(0.044715f), square), z, z)));
  const V inner = hn::Mul(scale, hn::MulAdd(constant(0.134145f), square, one));
  return hn::MulAdd(hn::Mul(half, z), hn::Mul(hn::NegMulAdd(t, t, one), inner), hn::MulAdd(half, t, half));
}

// dy * activation'; `saved` is the output for relu, sigmoid and tanh, the input for the others.
HWY_INLINE V gradient(Activation kind, V saved, V dy) {
  const V one = constant(1.0f);
  switch (kind) {
    case Activation::kNone:
      return dy;
    case Activation::kRelu:
      return hn::IfThenElseZero(hn::Gt(saved, hn::Zero(D())), dy);
    case Activation::kGelu:
      return hn::Mul(dy, geluSlope(saved));
    case Activation::kGeluTanh:
      return hn::Mul(dy, geluTanhSlope(saved));
    case Activation::kSigmoid:
      return hn::Mul(dy, hn::Mul(saved, hn::Sub(one, saved)));
    case Activation::kTanh:
      return hn::Mul(dy, hn::NegMulAdd(saved, saved, one));
    case Activation::kSilu: {
      const V s = sigmoid(saved);
      return hn::Mul(dy, hn::Mul(s, hn::MulAdd(saved, hn::Sub(one, s), one)));
    }
  }
  return dy;
}

}  // namespace activation
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
