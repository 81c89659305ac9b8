// Integer and conversion instructions of the element-wise engine: rows of element_ops.inc and plain loops that the
// compiler vectorises for each instruction set, except for shifts of bytes; only for element_ops.cpp. Arithmetic wraps;
// division by zero, which element_checks.hpp reports, gives 0.
#if defined(POPART_CPU_INT_OPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef POPART_CPU_INT_OPS_INL_HPP
#undef POPART_CPU_INT_OPS_INL_HPP
#else
#define POPART_CPU_INT_OPS_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <popart/half.hpp>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace ints {
namespace hn = hwy::HWY_NAMESPACE;

// For loops whose results may be in the memory of an operand: element i depends only on the elements i.
#if HWY_COMPILER_CLANG
#define POPART_EACH_ELEMENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define POPART_EACH_ELEMENT _Pragma("GCC ivdep")
#endif

// The column `as` of element_ops.inc.
template <class T>
using Number = T;
template <class T>
using Bits = std::make_unsigned_t<T>;

// An unsigned type at least as wide as int, because C++ promotes narrower ones to signed int.
template <class T>
constexpr auto word(T v) {
  return static_cast<std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>(v);
}
template <class T>
constexpr bool isNegative([[maybe_unused]] T v) {
  if constexpr (std::is_signed_v<T>) return v < 0;
  return false;
}
template <class T>
inline T quotient(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(0 - word(a));
  return static_cast<T>(a / b);
}
template <class T>
inline T remainder(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
template <class T>
inline T flooredRemainder(T a, T b) {
  const T r = remainder(a, b);
  return r != 0 && isNegative(r) != isNegative(b) ? static_cast<T>(r + b) : r;
}

#define INT_UNARY(name, as, ...) \
  struct name {                  \
    template <class T>           \
    static inline T call(T x) {  \
      __VA_ARGS__                \
    }                            \
  };
#define INT_BINARY(name, as, ...)    \
  struct name {                      \
    template <class T>               \
    static inline T call(T a, T b) { \
      __VA_ARGS__                    \
    }                                \
  };
#define INT_COMPARE(name, as, ...)      \
  struct name {                         \
    template <class T>                  \
    static inline bool call(T a, T b) { \
      __VA_ARGS__                       \
    }                                   \
  };
#include "backends/cpu/vector/element_ops.inc"

// y[i] = f(x[i]), and the same for two and three operands.
template <class X, class Y, class F>
HWY_INLINE void mapEach(const void *const *in, void *out, int64_t count, F f) {
  const auto *x = static_cast<const X *>(in[0]);
  auto *y = static_cast<Y *>(out);
  POPART_EACH_ELEMENT
  for (int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
}
template <class X, class Y, class F>
HWY_INLINE void mapPairs(const void *const *in, void *out, int64_t count, F f) {
  const auto *a = static_cast<const X *>(in[0]), *b = static_cast<const X *>(in[1]);
  auto *y = static_cast<Y *>(out);
  POPART_EACH_ELEMENT
  for (int64_t i = 0; i < count; ++i) y[i] = f(a[i], b[i]);
}

template <class T, class F>
void map1(const void *const *in, void *out, int64_t count, const float *) {
  mapEach<T, T>(in, out, count, [](T x) { return F::call(x); });
}
template <class T, class F>
void map2(const void *const *in, void *out, int64_t count, const float *) {
  mapPairs<T, T>(in, out, count, [](T a, T b) { return F::call(a, b); });
}
template <class T, class F>
void compare(const void *const *in, void *out, int64_t count, const float *) {
  mapPairs<T, uint32_t>(in, out, count, [](T a, T b) { return F::call(a, b) ? ~0u : 0u; });
}
template <class T>
void copy(const void *const *in, void *out, int64_t count, const float *) {
  mapEach<T, T>(in, out, count, [](T x) { return x; });
}
template <class T>
void notZero(const void *const *in, void *out, int64_t count, const float *) {
  mapEach<T, uint32_t>(in, out, count, [](T x) { return x != 0 ? ~0u : 0u; });
}
// ---- shifts; by the width or more, they give 0

enum class Shift : uint8_t { kLeft, kRight };

template <Shift kShift, class T>
constexpr T shifted(T a, T b) {
  if (b >= 8 * sizeof(T)) return 0;
  return static_cast<T>(kShift == Shift::kLeft ? word(a) << b : word(a) >> b);
}
// There is no instruction that shifts bytes: they are multiplied by powers of two, as pairs; each product uses one byte
// of the pairs.
template <Shift kShift, class V = hn::Vec<hn::ScalableTag<uint8_t>>>
HWY_INLINE V shiftedBytes(V x, V b) {
  static constexpr uint8_t kPowers[2][16] = {{1, 2, 4, 8, 16, 32, 64, 128}, {128, 64, 32, 16, 8, 4, 2, 1}};
  const hn::ScalableTag<uint8_t> d;
  const hn::ScalableTag<uint16_t> pairs;
  const V table = hn::LoadDup128(d, kPowers[kShift == Shift::kRight]);  // 2^b, or 2^(7 - b), and 0 from 8 on
  const auto a = hn::BitCast(pairs, x),
             power = hn::BitCast(pairs, hn::TableLookupBytes(table, hn::Min(b, hn::Set(d, 8))));
  const auto low = hn::Set(pairs, 0xff), high = hn::Set(pairs, 0xff00);
  if constexpr (kShift == Shift::kLeft) {
    const auto odd = hn::Mul(hn::And(a, high), hn::ShiftRight<8>(power));
    return hn::BitCast(d, hn::Or(hn::And(hn::Mul(a, power), low), odd));
  }
  // x 2^(7 - b) / 2^7 is the upper half of (2^8 x) (2 2^(7 - b)).
  const auto even = hn::MulHigh(hn::ShiftLeft<8>(a), hn::ShiftLeft<1>(hn::And(power, low))),
             odd = hn::MulHigh(hn::And(a, high), hn::ShiftLeft<1>(hn::ShiftRight<8>(power)));
  return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
}
template <Shift kShift, class T>
void shift(const void *const *in, void *out, int64_t count) {
  if constexpr (sizeof(T) > 1) {
    mapPairs<T, T>(in, out, count, [](T a, T b) { return shifted<kShift>(a, b); });
  } else {
    const auto *a = static_cast<const T *>(in[0]), *b = static_cast<const T *>(in[1]);
    auto *y = static_cast<T *>(out);
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(shiftedBytes<kShift>(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
    for (; i < count; ++i) y[i] = shifted<kShift>(a[i], b[i]);
  }
}
template <class T>
void shiftLeft(const void *const *in, void *out, int64_t count, const float *) {
  shift<Shift::kLeft, T>(in, out, count);
}
template <class T>
void shiftRight(const void *const *in, void *out, int64_t count, const float *) {
  shift<Shift::kRight, T>(in, out, count);
}

template <class T>
void where(const void *const *in, void *out, int64_t count, const float *) {
  const auto *m = static_cast<const uint32_t *>(in[0]);
  const auto *a = static_cast<const T *>(in[1]), *b = static_cast<const T *>(in[2]);
  auto *y = static_cast<T *>(out);
  POPART_EACH_ELEMENT
  for (int64_t i = 0; i < count; ++i) y[i] = m[i] ? a[i] : b[i];
}

// Truncates toward zero; NaN gives 0, values beyond 64 bits give the nearest 64-bit integer. Wraps to T.
template <class T>
void floatToInt(const void *const *in, void *out, int64_t count, const float *) {
  mapEach<float, T>(in, out, count, [](float v) {
    return static_cast<T>(!(v == v)                     ? 0
                          : v >= 9223372036854775808.0f ? INT64_MAX
                          : v < -9223372036854775808.0f ? INT64_MIN
                                                        : static_cast<int64_t>(v));
  });
}
// The operand may be in memory.
template <class T>
void intToFloat(const void *const *in, void *out, int64_t count, const float *) {
  mapEach<T, float>(in, out, count, [](T x) { return static_cast<float>(x); });
}
template <class T>
void maskToInt(const void *const *in, void *out, int64_t count, const float *) {
  mapEach<uint32_t, T>(in, out, count, [](uint32_t x) { return static_cast<T>(x & 1); });
}
// Between integer types; wraps.
template <class T, class To>
void convert(const void *const *in, void *out, int64_t count, const float *) {
  mapEach<T, To>(in, out, count, [](T x) { return static_cast<To>(x); });
}

// ---- memory to registers and back

// Fills a register with one value.
template <class T>
void fill(const void *const *in, void *out, int64_t count, const float *) {
  std::fill_n(static_cast<T *>(out), count, *static_cast<const T *>(in[0]));
}
// For values in the range of T or of the signed type of its size; NaN gives 0.
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
