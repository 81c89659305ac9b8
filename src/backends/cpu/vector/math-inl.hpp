// Functions of float vectors that several kernels and instructions share, compiled once per instruction set.
// Invariant: lanes are independent, so a value does not depend on its position or on the vector width. NaN gives NaN.
#if defined(POPART_CPU_MATH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_MATH_INL_HPP
#undef POPART_CPU_MATH_INL_HPP
#else
#define POPART_CPU_MATH_INL_HPP
#endif

#include <cmath>
#include <limits>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace math {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
using DD = hn::ScalableTag<double>;
using VD = hn::Vec<DD>;

HWY_INLINE V constant(float value) { return hn::Set(D(), value); }
HWY_INLINE V zero() { return hn::Zero(D()); }
HWY_INLINE V infinity() { return constant(std::numeric_limits<float>::infinity()); }
HWY_INLINE V notANumber() { return constant(std::numeric_limits<float>::quiet_NaN()); }
HWY_INLINE V select(M m, V yes, V no) { return hn::IfThenElse(m, yes, no); }
HWY_INLINE V keepNan(V x, V y) { return select(hn::IsNaN(x), x, y); }
HWY_INLINE V asVector(M m) { return hn::VecFromMask(D(), m); }

// factor · x, without the product when the factor is 1.
HWY_INLINE V scaled(float factor, V x) { return factor == 1.0f ? x : hn::Mul(constant(factor), x); }

// x bounded by [low, high]. Uses comparisons, because with minimum and maximum NaN would not pass on every instruction
// set.
HWY_INLINE V clamp(V x, V low, V high) {
  x = select(hn::Lt(x, low), low, x);
  return select(hn::Gt(x, high), high, x);
}

// y in the lanes of `inside`; in the others, F of x as computed by the C library.
template <double (*F)(double)>
HWY_INLINE V orLibrary(M inside, V x, V y) {
  if (HWY_LIKELY(hn::AllTrue(D(), inside))) return y;
  HWY_ALIGN float arguments[hn::MaxLanes(D())], results[hn::MaxLanes(D())];
  hn::Store(x, D(), arguments);
  for (size_t i = 0; i < hn::Lanes(D()); ++i) results[i] = static_cast<float>(F(static_cast<double>(arguments[i])));
  return select(inside, y, hn::Load(D(), results));
}

// The same as orLibrary() for F of two arguments.
template <double (*F)(double, double)>
HWY_INLINE V orLibrary(M inside, V a, V b, V y) {
  if (HWY_LIKELY(hn::AllTrue(D(), inside))) return y;
  HWY_ALIGN float first[hn::MaxLanes(D())], second[hn::MaxLanes(D())];
  hn::Store(a, D(), first);
  hn::Store(b, D(), second);
  for (size_t i = 0; i < hn::Lanes(D()); ++i)
    first[i] = static_cast<float>(F(static_cast<double>(first[i]), static_cast<double>(second[i])));
  return select(inside, y, hn::Load(D(), first));
}

// ---- remainders of a division

// fmod, exact. Let n = |a|, d = |b|, q = trunc(n / d rounded) <= 2^22. Rounding never crosses a whole number of that
// size, so q is trunc(n / d) or one more; with n < d it is 0 (the next smaller number gives a quotient below 1). Then
// n - q d is in (-d, d), and is a multiple of the last place of d (of n, if that is smaller; but then n < d, and the
// remainder is n): a float, which the fused multiply-add finds without error, and adding d to a negative one is exact
// likewise.
HWY_INLINE V truncatedRemainder(V a, V b) {
  const V n = hn::Abs(a), d = hn::Abs(b), quotient = hn::Div(n, d);
  V r = hn::NegMulAdd(hn::Trunc(quotient), d, n);
  r = select(hn::Lt(r, zero()), hn::Add(r, d), r);
  r = select(hn::Lt(n, d), n, r);  // also if d is infinite
#if HWY_NATIVE_FMA
  const M inside = hn::Le(quotient, constant(4194304.0f));
#else
  const M inside = hn::Lt(n, d);  // the product q d would be rounded
#endif
  return orLibrary<std::fmod>(inside, a, b, hn::CopySign(r, a));
}
// The remainder with the sign of b.
HWY_INLINE V flooredRemainder(V a, V b) {
  const V r = truncatedRemainder(a, b);
  const M otherSign = hn::And(hn::Ne(r, zero()), hn::Lt(hn::Mul(hn::CopySign(constant(1.0f), r), b), zero()));
  return select(otherSign, hn::Add(r, b), r);
}

// fmod(x + increment, modulus) with the sum in double, as the C library computes it. With n = |x + increment|, d =
// |modulus| and q = trunc(n times the rounded 1 / d) below 2^28, q is trunc(n / d), one less or one more. The product q
// d has at most 52 bits, and n - q d is a multiple of the last place of n or d and smaller than n or d: both are exact,
// and so are n - q d + d and n - q d - d.
HWY_INLINE V remainderOfSum(V x, float increment, float modulus) {
  const DD d;
  const hn::Half<D> half;
  const double size = std::fabs(static_cast<double>(modulus));
  const bool isOrdinary = size > 0 && size <= std::numeric_limits<float>::max();
  const VD divisor = hn::Set(d, size), inverse = hn::Set(d, isOrdinary ? 1 / size : 0.0);
  const VD most = hn::Set(d, isOrdinary ? 268435456.0 : -1.0), none = hn::Zero(d);  // of the quotient
  bool isInside = true;
  const auto remainderOf = [&](hn::Vec<hn::Half<D>> part) {
    const VD sum = hn::Add(hn::PromoteTo(d, part), hn::Set(d, static_cast<double>(increment))), n = hn::Abs(sum);
    const VD quotient = hn::Mul(n, inverse);
    isInside = hn::AllTrue(d, hn::Le(quotient, most)) && isInside;
    VD r = hn::NegMulAdd(hn::Trunc(quotient), divisor, n);
    r = hn::IfThenElse(hn::Lt(r, none), hn::Add(r, divisor), r);
    r = hn::IfThenElse(hn::Ge(r, divisor), hn::Sub(r, divisor), r);
    return hn::DemoteTo(half, hn::CopySign(r, sum));
  };
  const auto low = remainderOf(hn::LowerHalf(half, x)), high = remainderOf(hn::UpperHalf(half, x));
  if (HWY_LIKELY(isInside)) return hn::Combine(D(), high, low);
  HWY_ALIGN float numbers[hn::MaxLanes(D())];
  hn::Store(x, D(), numbers);
  for (size_t i = 0; i < hn::Lanes(D()); ++i)
    numbers[i] = static_cast<float>(
        std::fmod(static_cast<double>(numbers[i]) + static_cast<double>(increment), static_cast<double>(modulus)));
  return hn::Load(D(), numbers);
}

// ---- exponentials and logarithms

// e^x = p 2^n with n = x / ln 2 rounded and p = e^r, r = x - n ln 2: 1 + r + r^2 q(r), q a minimax polynomial with
// which the relative error is 3.1e-9. `shifted` has n in its low bits.
struct ScaledExponential {
  V p, shifted;
};
HWY_INLINE ScaledExponential scaledExponential(V x) {
  const V magic = constant(12582912.0f);  // 1.5 * 2^23: numbers of this size are integers
  const V shifted = hn::MulAdd(x, constant(1.44269504f), magic), n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, constant(0.693145751953125f), x);  // ln 2 in two parts; the product with the first is exact
  r = hn::NegMulAdd(n, constant(1.428606765330187045e-6f), r);
  V q = constant(1.381454058e-3f);
  q = hn::MulAdd(q, r, constant(8.368745446e-3f));
  q = hn::MulAdd(q, r, constant(4.166838899e-2f));
  q = hn::MulAdd(q, r, constant(1.666652113e-1f));
  q = hn::MulAdd(q, r, constant(4.999999404e-1f));
  return {hn::Add(constant(1.0f), hn::MulAdd(q, hn::Mul(r, r), r)), shifted};
}
// e^x for |x| <= 87. Error below 1 ulp.
HWY_INLINE V exponentialWithin(V x) {
  const hn::RebindToSigned<D> integers;
  const ScaledExponential e = scaledExponential(x);
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(integers, e.shifted));
  return hn::BitCast(D(), hn::Add(hn::BitCast(integers, e.p), exponent));
}
// e^x for any x, from the same numbers. Beyond 87, the power of two is applied in two halves, because the result may be
// below the normal numbers.
HWY_INLINE V exponential(V x) {
  const hn::RebindToSigned<D> integers;
  if (HWY_LIKELY(hn::AllTrue(D(), hn::Le(hn::Abs(x), constant(87.0f))))) return exponentialWithin(x);
  const ScaledExponential e = scaledExponential(clamp(x, constant(-104.0f), constant(104.0f)));
  const auto n = hn::Sub(hn::BitCast(integers, e.shifted), hn::BitCast(integers, constant(12582912.0f)));
  const auto half = hn::ShiftRight<1>(n);
  const auto power = [&](auto k) { return hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(k, hn::Set(integers, 127)))); };
  return keepNan(x, hn::Mul(hn::Mul(e.p, power(half)), power(hn::Sub(n, half))));
}
HWY_INLINE V expm1(V x) { return keepNan(x, hn::Expm1(D(), hn::Min(x, constant(104.0f)))); }
HWY_INLINE V logarithm(V x) {
  V y = select(hn::Eq(x, infinity()), x, hn::Log(D(), x));
  y = select(hn::Eq(x, zero()), hn::Neg(infinity()), y);
  return select(hn::Ge(x, zero()), y, notANumber());
}
HWY_INLINE V log1p(V x) {
  const V pole = constant(-1.0f);
  V y = select(hn::Eq(x, infinity()), x, hn::Log1p(D(), x));
  y = select(hn::Eq(x, pole), hn::Neg(infinity()), y);
  return select(hn::Ge(x, pole), y, notANumber());
}
// max(x, 0) + log(1 + e^-|x|)
HWY_INLINE V softplus(V x) {
  const V tail = hn::Log1p(D(), exponential(hn::Neg(hn::Abs(x))));
  return keepNan(x, hn::Add(hn::Max(x, zero()), tail));
}

// ---- powers

// m^b 2^(b e) for m in [0.7, 1.42] and whole e. log2 m = s p(s^2) with s = (m - 1) / (m + 1); with t the exponent of
// two and n = t rounded, 2^t = 2^n (1 + f q(f)), f = t - n. The relative errors of both polynomials are below 1.2e-10,
// far less than a float's last place.
HWY_INLINE VD powerOfTwoParts(VD m, VD e, VD b) {
  const DD d;
  const hn::RebindToSigned<DD> integers;
  const VD one = hn::Set(d, 1.0), s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), u = hn::Mul(s, s);
  VD p = hn::Set(d, 2.82869822176786023e-01);
  p = hn::MulAdd(p, u, hn::Set(d, 3.19907925541220772e-01));
  p = hn::MulAdd(p, u, hn::Set(d, 4.12209195126768013e-01));
  p = hn::MulAdd(p, u, hn::Set(d, 5.77077942960397827e-01));
  p = hn::MulAdd(p, u, hn::Set(d, 9.61796694111245909e-01));
  p = hn::MulAdd(p, u, hn::Set(d, 2.88539008177785083e+00));
  // Beyond 200, the result is zero or infinite.
  VD t = hn::Mul(b, hn::MulAdd(s, p, e));
  t = hn::Min(hn::Max(t, hn::Set(d, -200.0)), hn::Set(d, 200.0));
  const VD magic = hn::Set(d, 6755399441055744.0);  // 1.5 * 2^52
  const VD shifted = hn::Add(t, magic), f = hn::Sub(t, hn::Sub(shifted, magic));
  VD q = hn::Set(d, 1.52973237220113718e-05);
  q = hn::MulAdd(q, f, hn::Set(d, 1.54614446970061488e-04));
  q = hn::MulAdd(q, f, hn::Set(d, 1.33335023862674431e-03));
  q = hn::MulAdd(q, f, hn::Set(d, 9.61805667852907130e-03));
  q = hn::MulAdd(q, f, hn::Set(d, 5.55041088390956366e-02));
  q = hn::MulAdd(q, f, hn::Set(d, 2.40226509222887463e-01));
  q = hn::MulAdd(q, f, hn::Set(d, 6.93147180559945286e-01));
  q = hn::MulAdd(q, f, one);
  return hn::BitCast(d, hn::Add(hn::BitCast(integers, q), hn::ShiftLeft<52>(hn::BitCast(integers, shifted))));
}

// Corrects `y` = |a|^b, which is right if a and b are finite and a is not 0, for all other a and b.
HWY_INLINE V powerOfSpecial(V a, V b, V y) {
  const V one = constant(1.0f), size = hn::Abs(a), half = hn::Mul(constant(0.5f), b);
  const M falls = hn::Lt(b, zero()), isInfinite = hn::Eq(size, infinity());
  y = select(hn::Eq(size, zero()), select(falls, infinity(), zero()), y);
  y = select(isInfinite, select(falls, zero(), infinity()), y);
  const M shrinks = hn::Xor(hn::Gt(size, one), hn::Gt(b, zero()));
  y = select(hn::Eq(hn::Abs(b), infinity()), select(shrinks, zero(), infinity()), y);
  y = select(hn::Eq(size, one), one, y);
  const M isWhole = hn::Eq(hn::Trunc(b), b), isOdd = hn::And(isWhole, hn::Ne(hn::Trunc(half), half));
  y = select(isOdd, hn::CopySign(y, a), y);
  y = select(hn::And(hn::Lt(a, zero()), hn::Not(hn::Or(isWhole, isInfinite))), notANumber(), y);
  y = select(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), notANumber(), y);
  return select(hn::Or(hn::Eq(b, zero()), hn::Eq(a, one)), one, y);
}

// a^b with the special cases of the C library. Computed in double: error below 0.51 ulp.
HWY_INLINE V power(V a, V b) {
  const hn::RebindToSigned<D> integers;
  const hn::Half<D> half;
  const V size = hn::Abs(a), smallest = constant(std::numeric_limits<float>::min());
  const M isSubnormal = hn::Lt(size, smallest);
  // m in [sqrt(1/2), sqrt(2)) and e with |a| = m 2^e
  const auto bits = hn::BitCast(integers, select(isSubnormal, hn::Mul(size, constant(16777216.0f)), size));
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(integers, 0x3f3504f3)));
  const V m = hn::BitCast(D(), hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const V e = hn::Sub(hn::ConvertTo(D(), exponent), hn::IfThenElseZero(isSubnormal, constant(24.0f)));
  const DD d;
  const VD low = powerOfTwoParts(hn::PromoteTo(d, hn::LowerHalf(half, m)), hn::PromoteTo(d, hn::LowerHalf(half, e)),
                                 hn::PromoteTo(d, hn::LowerHalf(half, b)));
  const VD high = powerOfTwoParts(hn::PromoteTo(d, hn::UpperHalf(half, m)), hn::PromoteTo(d, hn::UpperHalf(half, e)),
                                  hn::PromoteTo(d, hn::UpperHalf(half, b)));
  const V y = hn::Combine(D(), hn::DemoteTo(half, high), hn::DemoteTo(half, low));
  const M isOrdinary = hn::And(hn::And(hn::Gt(a, zero()), hn::Lt(a, infinity())), hn::Lt(hn::Abs(b), infinity()));
  return HWY_LIKELY(hn::AllTrue(D(), isOrdinary)) ? y : powerOfSpecial(a, b, y);
}

// ---- hyperbolic functions

// 1 / (1 + e^-x)
HWY_INLINE V sigmoid(V x) {
  const V one = constant(1.0f);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
}
// v / (v + 2) with v = e^(2t) - 1 for t = |x|; from 9.02 on that rounds to 1. With n = 2t / ln 2 rounded to a whole
// number and t = n ln(2) / 2 + r, v = 2^n (e^(2r) - 1) + (2^n - 1), where e^(2r) - 1 is a minimax polynomial with a
// relative error of 1.1e-8, 2r + r² (...). Error below 2.6 ulp.
HWY_INLINE V hyperbolicTangent(V x) {
  const hn::RebindToSigned<D> integers;
  const V t = hn::Min(constant(9.02f), hn::Abs(x)), one = constant(1.0f);
  const V n = hn::Round(hn::Mul(constant(2.8853900f), t));
  V r = hn::NegMulAdd(n, constant(3.46573591e-01f), t);  // ln(2) / 2 in two parts
  r = hn::NegMulAdd(n, constant(-9.52327106e-10f), r);
  V p = constant(8.92709196e-02f);
  p = hn::MulAdd(p, r, constant(2.67812818e-01f));
  p = hn::MulAdd(p, r, constant(6.66659832e-01f));
  p = hn::MulAdd(p, r, constant(1.33332038e+00f));
  p = hn::MulAdd(p, r, constant(2.00000000e+00f));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, r));
  const V power = hn::BitCast(D(), hn::Add(hn::ShiftLeft<23>(hn::ConvertTo(integers, n)), hn::BitCast(integers, one)));
  const V v = hn::MulAdd(p, power, hn::Sub(power, one));
  return keepNan(x, hn::CopySign(hn::Div(v, hn::Add(v, constant(2.0f))), x));
}
// From 88 on e^x nears overflow before sinh and cosh do: they are then (e^(x/2) / 2) e^(x/2).
HWY_INLINE V hyperbolicSine(V x) {
  const V half = exponential(hn::Mul(constant(0.5f), hn::Abs(x)));
  const V far = hn::CopySign(hn::Mul(hn::Mul(constant(0.5f), half), half), x);
  return select(hn::Le(hn::Abs(x), constant(88.0f)), hn::Sinh(D(), hn::Min(x, constant(88.0f))), far);
}
HWY_INLINE V hyperbolicCosine(V x) {
  const V half = exponential(hn::Mul(constant(0.5f), hn::Abs(x)));
  return hn::Add(hn::Mul(hn::Mul(constant(0.5f), half), half), hn::Div(constant(0.5f), hn::Mul(half, half)));
}
HWY_INLINE V areaSine(V x) { return select(hn::Lt(hn::Abs(x), infinity()), hn::Asinh(D(), x), x); }
HWY_INLINE V areaCosine(V x) {
  const V y = select(hn::Eq(x, infinity()), x, hn::Acosh(D(), x));
  return select(hn::Ge(x, constant(1.0f)), y, notANumber());
}
HWY_INLINE V areaTangent(V x) {
  const V one = constant(1.0f), size = hn::Abs(x);
  const V y = select(hn::Eq(size, one), hn::CopySign(infinity(), x), hn::Atanh(D(), x));
  return select(hn::Le(size, one), y, notANumber());
}

// ---- trigonometric functions; the vector forms reduce arguments up to 39,000

HWY_INLINE M isReducible(V x) { return hn::Le(hn::Abs(x), constant(39000.0f)); }
HWY_INLINE V sine(V x) { return orLibrary<std::sin>(isReducible(x), x, hn::Sin(D(), x)); }
HWY_INLINE V cosine(V x) { return orLibrary<std::cos>(isReducible(x), x, hn::Cos(D(), x)); }
// Near a pole the relative error of the cosine is too large.
HWY_INLINE V tangent(V x) {
  const V c = hn::Cos(D(), x);
  const M inside = hn::And(isReducible(x), hn::Ge(hn::Abs(c), constant(0.125f)));
  return orLibrary<std::tan>(inside, x, hn::Div(hn::Sin(D(), x), c));
}

// The angle of the point (b, a), as atan2(a, b) of the C library, including signs of zeros. With t the smaller of |a|
// and |b| divided by the larger, atan t = t + t^3 p(t^2), with p a minimax polynomial of relative error 2.6e-9. The
// angle is this value, or its difference to or sum with a quarter or half of a turn. Error below 2 ulp.
HWY_INLINE V angle(V a, V b) {
  const V height = hn::Abs(a), width = hn::Abs(b);
  const M isSteep = hn::Gt(height, width), isLeft = hn::Lt(hn::CopySign(constant(1.0f), b), zero());
  const V least = select(isSteep, width, height), most = select(isSteep, height, width);
  V t = hn::Div(least, most);
  t = hn::IfThenZeroElse(hn::Eq(most, zero()), t);
  t = select(hn::Eq(least, infinity()), constant(1.0f), t);
  const V s = hn::Mul(t, t);
  V p = constant(-1.793622971e-03f);
  p = hn::MulAdd(p, s, constant(1.091461163e-02f));
  p = hn::MulAdd(p, s, constant(-3.117785603e-02f));
  p = hn::MulAdd(p, s, constant(5.795760453e-02f));
  p = hn::MulAdd(p, s, constant(-8.403450996e-02f));
  p = hn::MulAdd(p, s, constant(1.095218584e-01f));
  p = hn::MulAdd(p, s, constant(-1.426424235e-01f));
  p = hn::MulAdd(p, s, constant(1.999854892e-01f));
  p = hn::MulAdd(p, s, constant(-3.333329856e-01f));
  const V within = hn::MulAdd(p, hn::Mul(t, s), t);
  // (start, in two parts) plus or minus the angle within the eighth.
  const V quarter = constant(1.57079637f), half = constant(3.14159274f);
  const V start = select(isSteep, quarter, hn::IfThenElseZero(isLeft, half));
  const V rest = select(isSteep, constant(-4.37113883e-8f), hn::IfThenElseZero(isLeft, constant(-8.74227766e-8f)));
  const V turned = select(hn::Xor(isSteep, isLeft), hn::Neg(within), within);
  const V y = hn::CopySign(hn::Add(hn::Add(start, turned), rest), a);
  return select(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), notANumber(), y);
}

// ---- the error function

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
  far = hn::Sub(constant(1.0f), exponentialWithin(hn::MulAdd(far, t, hn::Neg(t))));
  V near = constant(-5.96761703e-4f);
  near = hn::MulAdd(near, s, constant(4.99119423e-3f));
  near = hn::MulAdd(near, s, constant(-2.67681349e-2f));
  near = hn::MulAdd(near, s, constant(1.12819925e-1f));
  near = hn::MulAdd(near, s, constant(-3.76125336e-1f));
  near = hn::MulAdd(near, s, constant(1.28379166e-1f));
  near = hn::MulAdd(near, x, x);
  return hn::IfThenElse(hn::Gt(t, constant(0.921875f)), hn::CopySign(far, x), near);
}

}  // namespace math
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
