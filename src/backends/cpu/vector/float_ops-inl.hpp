// Float and mask instructions of the element-wise engine, made from the rows of element_ops.inc: F::call computes one
// vector (one number in the LIBRARY rows), the loops below an array. For .cpp files that Highway compiles once per
// instruction set.
#if defined(POPART_CPU_FLOAT_OPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_FLOAT_OPS_INL_HPP
#undef POPART_CPU_FLOAT_OPS_INL_HPP
#else
#define POPART_CPU_FLOAT_OPS_INL_HPP
#endif

#include <cmath>

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
#define LIBRARY_UNARY(name, parameters, ...)                                      \
  struct name {                                                                   \
    static double call(double x, [[maybe_unused]] const float *p) { __VA_ARGS__ } \
  };
#define LIBRARY_BINARY(name, ...)                          \
  struct name {                                            \
    static double call(double a, double b) { __VA_ARGS__ } \
  };
#define MASK_UNARY(name, ...)                                    \
  struct Mask##name {                                            \
    static HWY_INLINE V call(V x, const float *) { __VA_ARGS__ } \
  };
#define MASK_BINARY(name, ...)                                        \
  struct Mask##name {                                                 \
    static HWY_INLINE V call(V a, V b, const float *) { __VA_ARGS__ } \
  };
#include "backends/cpu/vector/element_ops.inc"

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
void map2(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *a = static_cast<const float *>(in[0]), *b = static_cast<const float *>(in[1]);
  auto *y = static_cast<float *>(out);
  constexpr bool kScalarA = (kScalars & 1) != 0, kScalarB = (kScalars & 2) != 0;
  const V sa = kScalarA ? hn::Set(D(), *a) : zero(), sb = kScalarB ? hn::Set(D(), *b) : zero();
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(F::call(kScalarA ? sa : hn::LoadU(D(), a + i), kScalarB ? sb : hn::LoadU(D(), b + i), p), D(), y + i);
  if (i == count) return;
  const FirstLanes tail(count - i);
  tail.store(F::call(kScalarA ? sa : tail.load(a + i), kScalarB ? sb : tail.load(b + i), p), y + i);
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
template <class F>
void library1(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(F::call(static_cast<double>(x[i]), p));
}
template <class F, ScalarOperands kScalars>
void library2(const void *const *in, void *out, int64_t count, const float *) {
  const auto *a = static_cast<const float *>(in[0]), *b = static_cast<const float *>(in[1]);
  auto *y = static_cast<float *>(out);
  const double firstA = count > 0 ? a[0] : 0, firstB = count > 0 ? b[0] : 0;
  for (int64_t i = 0; i < count; ++i) {
    const double va = kScalars & 1 ? firstA : static_cast<double>(a[i]),
                 vb = kScalars & 2 ? firstB : static_cast<double>(b[i]);
    y[i] = static_cast<float>(F::call(va, vb));
  }
}

}  // namespace floats
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
