// Float and mask instructions of the element-wise engine, made from the rows of element_ops.inc: F::call computes one
// vector, the loops below an array. For .cpp files that Highway compiles once per instruction set.
#if defined(POPART_CPU_FLOAT_OPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_FLOAT_OPS_INL_HPP
#undef POPART_CPU_FLOAT_OPS_INL_HPP
#else
#define POPART_CPU_FLOAT_OPS_INL_HPP
#endif

#include <cmath>

#include "backends/cpu/kernels/bounds-inl.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/vector/element_ops.hpp"
#include "backends/cpu/vector/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace floats {
using namespace math;
using lanes::AllLanes;
using lanes::FirstLanes;

struct Copy {
  static HWY_INLINE V call(V x, const float *) { return x; }
};
struct NotZero {
  static HWY_INLINE V call(V x, const float *) { return hn::Not(asVector(hn::Eq(x, zero()))); }
};
// The result of a conversion to an integer and back, for values in its range: NaN becomes 0, and -0 becomes 0.
struct Whole {
  static HWY_INLINE V call(V x, const float *) {
    return hn::IfThenElseZero(hn::Eq(x, x), hn::Add(hn::Trunc(x), zero()));
  }
};
struct MaskToFloat {
  static HWY_INLINE V call(V x, const float *) { return hn::And(x, constant(1.0f)); }
};
#define UNARY(name, cost, parameters, ...)                                         \
  struct name {                                                                    \
    static HWY_INLINE V call(V x, [[maybe_unused]] const float *p) { __VA_ARGS__ } \
  };
#define BINARY(name, cost, parameters, ...)                                             \
  struct name {                                                                         \
    static HWY_INLINE V call(V a, V b, [[maybe_unused]] const float *p) { __VA_ARGS__ } \
  };
#define MASK_UNARY(name, ...)                      \
  struct Mask##name {                              \
    template <class B>                             \
    static HWY_INLINE B call(B x, const float *) { \
      __VA_ARGS__                                  \
    }                                              \
  };
#define MASK_BINARY(name, ...)                          \
  struct Mask##name {                                   \
    template <class B>                                  \
    static HWY_INLINE B call(B a, B b, const float *) { \
      __VA_ARGS__                                       \
    }                                                   \
  };
#include "backends/cpu/vector/element_ops.inc"

// Parameters in registers, because the compiler must assume that stores of results change any memory.
struct Parameters {
  float of[2];
  explicit Parameters(const float *p) : of{p ? p[0] : 0.0f, p ? p[1] : 0.0f} {}
};

template <class F>
void map1(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out);
  const Parameters own(p);
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(F::call(hn::LoadU(D(), x + i), own.of), D(), y + i);
  if (i == count) return;
  const FirstLanes tail(count - i);
  tail.store(F::call(tail.load(x + i), own.of), y + i);
}

template <class F, ScalarOperands kScalars>
void map2(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *a = static_cast<const float *>(in[0]), *b = static_cast<const float *>(in[1]);
  auto *y = static_cast<float *>(out);
  const Parameters own(p);
  constexpr bool kScalarA = (kScalars & 1) != 0, kScalarB = (kScalars & 2) != 0;
  const V sa = kScalarA ? hn::Set(D(), *a) : zero(), sb = kScalarB ? hn::Set(D(), *b) : zero();
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(F::call(kScalarA ? sa : hn::LoadU(D(), a + i), kScalarB ? sb : hn::LoadU(D(), b + i), own.of), D(),
               y + i);
  if (i == count) return;
  const FirstLanes tail(count - i);
  tail.store(F::call(kScalarA ? sa : tail.load(a + i), kScalarB ? sb : tail.load(b + i), own.of), y + i);
}

// BOOL in memory: every byte except 0 is true; results are 0 or 1.
template <class D8>
HWY_INLINE hn::Vec<D8> maskOfBytes(D8 d, const void *x, int64_t i) {
  const auto bytes = hn::LoadU(d, static_cast<const uint8_t *>(x) + i);
  return hn::VecFromMask(d, hn::Ne(bytes, hn::Zero(d)));
}
template <class F, class... X>
HWY_INLINE void mapBools(void *out, int64_t count, const X *...x) {
  auto *y = static_cast<uint8_t *>(out);
  const auto at = [&](auto d, int64_t i) {
    hn::StoreU(hn::And(F::call(maskOfBytes(d, x, i)..., nullptr), hn::Set(d, uint8_t{1})), d, y + i);
  };
  const hn::ScalableTag<uint8_t> all;
  const auto lanes = static_cast<int64_t>(hn::Lanes(all));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) at(all, i);
  for (; i < count; ++i) at(hn::CappedTag<uint8_t, 1>(), i);
}
template <class F>
void bools1(const void *const *in, void *out, int64_t count, const float *) {
  mapBools<F>(out, count, in[0]);
}
template <class F>
void bools2(const void *const *in, void *out, int64_t count, const float *) {
  mapBools<F>(out, count, in[0], in[1]);
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

// The elements of an operand from i on.
template <OperandForm kForm, class Lanes>
HWY_INLINE V operandAt(Lanes lanes, V one, const float *each, int64_t i) {
  if constexpr (kForm == OperandForm::kEach) return lanes.load(each + i);
  return one;
}

// ---- see scaledFunction

template <OperandForm kScale, OperandForm kShift, bool kBounded>
void scaled(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *x = static_cast<const float *>(in[0]), *scales = static_cast<const float *>(in[1]),
             *shifts = static_cast<const float *>(in[2]);
  auto *y = static_cast<float *>(out);
  const V scale = kScale == OperandForm::kOne ? constant(*scales) : zero(),
          shift = kShift == OperandForm::kOne ? constant(*shifts) : zero(), low = constant(p[0]), high = constant(p[1]);
  const auto at = [&](auto lanes, int64_t i) {
    V v = lanes.load(x + i);
    if constexpr (kScale != OperandForm::kNone) v = hn::Mul(v, operandAt<kScale>(lanes, scale, scales, i));
    if constexpr (kShift != OperandForm::kNone) v = hn::Add(v, operandAt<kShift>(lanes, shift, shifts, i));
    return kBounded ? bounds::atMost(bounds::atLeast(v, low), high) : v;
  };
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(at(AllLanes(), i), D(), y + i);
  if (i == count) return;
  const FirstLanes tail(count - i);
  tail.store(at(tail, i), y + i);
}

// ---- quantisation, see quantiseFunction (T: as many bits as the memory has) and dequantiseFunction

using Bits = hn::RebindToUnsigned<D>;
// The lowest bits of 1.5 2^23 + x are those of the integer nearest to x, halves to even, for |x| <= 2^22.
HWY_INLINE hn::Vec<Bits> nextInteger(V x) { return hn::BitCast(Bits(), hn::Add(x, constant(12582912.0f))); }

template <OperandForm kDivisor, class Lanes>
HWY_INLINE V quotientAt(Lanes lanes, const float *x, V divisor, const float *divisors, int64_t i) {
  const V v = lanes.load(x + i);
  if constexpr (kDivisor == OperandForm::kNone) return v;
  return hn::Div(v, operandAt<kDivisor>(lanes, divisor, divisors, i));
}
// Computes y[i] from numbersAt(lanes, i), which gives the elements from i on.
template <class T, class F>
HWY_INLINE void storeNumbers(T *y, int64_t count, const F &numbersAt) {
  const hn::Rebind<T, D> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::TruncateTo(narrow, numbersAt(AllLanes(), i)), narrow, y + i);
  if (i == count) return;
  HWY_ALIGN T whole[hn::MaxLanes(D())];
  hn::Store(hn::TruncateTo(narrow, numbersAt(FirstLanes(count - i), i)), narrow, whole);
  for (int64_t k = 0; i + k < count; ++k) y[i + k] = whole[k];
}

// For one shift and integer bounds: the bounds are applied to the quotient, which is then rounded, and shifted as an
// integer.
template <class T, OperandForm kDivisor>
void quantiseByInteger(const float *x, const float *divisors, float shift, T *y, int64_t count, const float *p) {
  const V least = constant(p[0] - shift), most = constant(p[1] - shift);
  const V divisor = kDivisor == OperandForm::kOne ? constant(*divisors) : zero();
  const auto move = hn::Set(Bits(), static_cast<uint32_t>(static_cast<int32_t>(shift)));
  storeNumbers(y, count, [&](auto lanes, int64_t i) {
    const V q = quotientAt<kDivisor>(lanes, x, divisor, divisors, i);
    const auto number = hn::Add(nextInteger(hn::Min(hn::Max(q, least), most)), move);
    return hn::IfThenElseZero(hn::RebindMask(Bits(), hn::Eq(q, q)), number);
  });
}
inline bool isShortInteger(float v) {
  return v >= -1048576.0f && v <= 1048576.0f && v == static_cast<float>(static_cast<int32_t>(v));
}

template <class T, OperandForm kDivisor, OperandForm kShift>
void quantise(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *x = static_cast<const float *>(in[0]), *divisors = static_cast<const float *>(in[1]),
             *shifts = static_cast<const float *>(in[2]);
  auto *y = static_cast<T *>(out);
  if constexpr (kShift != OperandForm::kEach) {
    const float one = kShift == OperandForm::kOne ? *shifts : 0.0f;
    if (isShortInteger(one) && isShortInteger(p[0]) && isShortInteger(p[1]))
      return quantiseByInteger<T, kDivisor>(x, divisors, one, y, count, p);
  }
  const V least = constant(p[0]), most = constant(p[1]);
  const V divisor = kDivisor == OperandForm::kOne ? constant(*divisors) : zero(),
          shift = kShift == OperandForm::kOne ? constant(*shifts) : zero();
  storeNumbers(y, count, [&](auto lanes, int64_t i) {
    V v = hn::Round(quotientAt<kDivisor>(lanes, x, divisor, divisors, i));
    if constexpr (kShift != OperandForm::kNone) v = hn::Add(v, operandAt<kShift>(lanes, shift, shifts, i));
    v = hn::IfThenElseZero(hn::Eq(v, v), hn::Min(hn::Max(v, least), most));
    return nextInteger(hn::Trunc(v));
  });
}

template <OperandForm kShift>
HWY_INLINE V dequantised(hn::Vec<hn::RebindToSigned<D>> x, V shift, V factor) {
  const V y = hn::ConvertTo(D(), x);
  if constexpr (kShift == OperandForm::kNone) return hn::Mul(y, factor);
  return hn::Mul(hn::Sub(y, shift), factor);
}

template <class T, OperandForm kShift, OperandForm kFactor>
void dequantise(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const T *>(in[0]);
  const auto *shifts = static_cast<const float *>(in[1]), *factors = static_cast<const float *>(in[2]);
  auto *y = static_cast<float *>(out);
  const V shift = kShift == OperandForm::kOne ? constant(*shifts) : zero(),
          factor = kFactor == OperandForm::kOne ? constant(*factors) : zero();
  const hn::Rebind<T, D> narrow;
  const hn::RebindToSigned<D> integers;
  const auto vectorOf = [&](auto lanes, hn::Vec<hn::Rebind<T, D>> numbers, int64_t i) {
    return dequantised<kShift>(hn::PromoteTo(integers, numbers), operandAt<kShift>(lanes, shift, shifts, i),
                               operandAt<kFactor>(lanes, factor, factors, i));
  };
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(vectorOf(AllLanes(), hn::LoadU(narrow, x + i), i), D(), y + i);
  if (i == count) return;
  HWY_ALIGN T whole[hn::MaxLanes(D())] = {};
  for (int64_t k = 0; i + k < count; ++k) whole[k] = x[i + k];
  const FirstLanes tail(count - i);
  tail.store(vectorOf(tail, hn::Load(narrow, whole), i), y + i);
}

}  // namespace floats
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
