// Integer and conversion instructions of the element-wise engine: rows of element_ops.inc and plain loops that the
// compiler vectorises for each instruction set; only for element_ops.cpp. Registers hold 64-bit integers; narrow()
// wraps them to their type's range. Arithmetic wraps; a zero divisor, which element_checks.hpp reports, gives 0.
#if defined(POPART_CPU_INT_OPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_INT_OPS_INL_HPP
#undef POPART_CPU_INT_OPS_INL_HPP
#else
#define POPART_CPU_INT_OPS_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstring>

#include <popart/half.hpp>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace ints {
namespace hn = hwy::HWY_NAMESPACE;
using I = int64_t;

inline I wrap(uint64_t v) { return static_cast<I>(v); }
inline I quotient(I a, I b) { return b == 0 ? 0 : b == -1 ? wrap(0 - static_cast<uint64_t>(a)) : a / b; }
inline I remainder(I a, I b) { return b == 0 || b == -1 ? 0 : a % b; }
inline I flooredRemainder(I a, I b) {
  const I r = remainder(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

struct Copy {
  static inline I call(I x) { return x; }
};
#define INT_UNARY(name, rule, ...)            \
  struct name {                               \
    static inline I call(I x) { __VA_ARGS__ } \
  };
#define INT_BINARY(name, rule, ...)                \
  struct name {                                    \
    static inline I call(I a, I b) { __VA_ARGS__ } \
  };
#define INT_COMPARE(name, rule, ...)                  \
  struct name {                                       \
    static inline bool call(I a, I b) { __VA_ARGS__ } \
  };
#include "backends/cpu/vector/element_ops.inc"

template <class F>
void map1(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const I *>(in[0]);
  auto *y = static_cast<I *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = F::call(x[i]);
}
template <class F>
void map2(const void *const *in, void *out, int64_t count, const float *) {
  const auto *a = static_cast<const I *>(in[0]), *b = static_cast<const I *>(in[1]);
  auto *y = static_cast<I *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = F::call(a[i], b[i]);
}
template <class F>
void compare(const void *const *in, void *out, int64_t count, const float *) {
  const auto *a = static_cast<const I *>(in[0]), *b = static_cast<const I *>(in[1]);
  auto *y = static_cast<uint32_t *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = F::call(a[i], b[i]) ? ~0u : 0u;
}
inline void notZero(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const I *>(in[0]);
  auto *y = static_cast<uint32_t *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] != 0 ? ~0u : 0u;
}
// parameters[0]: bits of the type.
template <bool kLeft>
void shift(const void *const *in, void *out, int64_t count, const float *p) {
  const auto *a = static_cast<const uint64_t *>(in[0]), *b = static_cast<const uint64_t *>(in[1]);
  auto *y = static_cast<uint64_t *>(out);
  const auto bits = static_cast<uint64_t>(p[0]);
  for (int64_t i = 0; i < count; ++i) y[i] = b[i] >= bits ? 0 : kLeft ? a[i] << b[i] : a[i] >> b[i];
}
inline void where(const void *const *in, void *out, int64_t count, const float *) {
  const auto *m = static_cast<const uint32_t *>(in[0]);
  const auto *a = static_cast<const I *>(in[1]), *b = static_cast<const I *>(in[2]);
  auto *y = static_cast<I *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = m[i] ? a[i] : b[i];
}

// Truncates toward zero; NaN gives 0, values beyond 64 bits the nearest 64-bit integer.
inline void floatToInt(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<I *>(out);
  for (int64_t i = 0; i < count; ++i) {
    const float v = x[i];
    y[i] = !(v == v)                     ? 0
           : v >= 9223372036854775808.0f ? INT64_MAX
           : v < -9223372036854775808.0f ? INT64_MIN
                                         : static_cast<I>(v);
  }
}
inline void intToFloat(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const I *>(in[0]);
  auto *y = static_cast<float *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i]);
}
inline void maskToInt(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const uint32_t *>(in[0]);
  auto *y = static_cast<I *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] & 1;
}

// ---- memory to registers and back

template <class T, bool kScalar>
void loadInt(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const T *>(in[0]);
  auto *y = static_cast<I *>(out);
  const T first = x[0];
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<I>(kScalar ? first : x[i]);
}
template <class T>
void storeInt(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const I *>(in[0]);
  auto *y = static_cast<T *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(x[i]);
}
template <class T>
void narrow(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const I *>(in[0]);
  auto *y = static_cast<I *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<I>(static_cast<T>(x[i]));
}
template <class T>
void loadAsFloat(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const T *>(in[0]);
  auto *y = static_cast<float *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i]);
}
// Values that T, or the signed type of its size, has; what is no number gives 0.
template <class T>
void storeFloatAs(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<T *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(static_cast<int32_t>(x[i] == x[i] ? x[i] : 0.0f));
}
template <bool kScalar>
void loadBool(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const uint8_t *>(in[0]);
  auto *y = static_cast<uint32_t *>(out);
  const uint8_t first = x[0];
  for (int64_t i = 0; i < count; ++i) y[i] = (kScalar ? first : x[i]) ? ~0u : 0u;
}
inline void storeBool(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const uint32_t *>(in[0]);
  auto *y = static_cast<uint8_t *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<uint8_t>(x[i] & 1);
}
template <bool kScalar>
void loadFloat(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out);
  const float first = x[0];
  for (int64_t i = 0; i < count; ++i) y[i] = kScalar ? first : x[i];
}

inline float halfToFloat(uint16_t bits) { return halfBitsToFloat(bits); }
inline uint16_t floatToHalf(float v) { return floatToHalfBits(v); }
template <bool kScalar>
void loadHalf(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const uint16_t *>(in[0]);
  auto *y = static_cast<float *>(out);
  int64_t i = 0;
  if (kScalar) {
    const float first = halfToFloat(x[0]);
    for (; i < count; ++i) y[i] = first;
    return;
  }
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t *>(x + i))), d, y + i);
#endif
  for (; i < count; ++i) y[i] = halfToFloat(x[i]);
}
inline void storeHalf(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<uint16_t *>(out);
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, x + i)), d16, reinterpret_cast<hwy::float16_t *>(y + i));
#endif
  for (; i < count; ++i) y[i] = floatToHalf(x[i]);
}
inline void roundHalf(const void *const *in, void *out, int64_t count, const float *p) {
  uint16_t block[64];
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out);
  for (int64_t i = 0; i < count; i += 64) {
    const int64_t n = count - i < 64 ? count - i : 64;
    const void *from = x + i, *middle = block;
    storeHalf(&from, block, n, p);
    loadHalf<false>(&middle, y + i, n, p);
  }
}

inline uint16_t toBFloat16(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}
inline float fromBFloat16(uint16_t v) {
  const uint32_t bits = static_cast<uint32_t>(v) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
template <bool kScalar>
void loadBFloat16(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const uint16_t *>(in[0]);
  auto *y = static_cast<float *>(out);
  const uint16_t first = x[0];
  for (int64_t i = 0; i < count; ++i) y[i] = fromBFloat16(kScalar ? first : x[i]);
}
inline void storeBFloat16(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<uint16_t *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = toBFloat16(x[i]);
}
inline void roundBFloat16(const void *const *in, void *out, int64_t count, const float *) {
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = fromBFloat16(toBFloat16(x[i]));
}

}  // namespace ints
}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
