// Integer tiles, compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/integer_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/integer_product.hpp"
// clang-format on
#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most 16 numbers: a panel is two of them.
using D32 = hn::CappedTag<int32_t, kMostIntegerColumns / 2>;
using D16 = hn::RepartitionToNarrow<D32>;
using V32 = hn::Vec<D32>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D32()));
constexpr int kColumns = 2 * kLanes;
// Sums of a tile, two numbers of B and one of A stay in registers.
constexpr int kRows = kLanes >= 16 ? kMostIntegerRows : 6;

// sum + a[2i] b[2i] + a[2i + 1] b[2i + 1]
HWY_INLINE V32 multiplyAdd(hn::Vec<D16> a, hn::Vec<D16> b, V32 sum) {
#if HWY_ARCH_X86
  V32 unused = hn::Zero(D32());  // one instruction where there is one; x86 leaves the second sum alone
  return hn::ReorderWidenMulAccumulate(D32(), a, b, sum, unused);
#else
  return hn::Add(sum, hn::WidenMulPairwiseAdd(D32(), a, b));
#endif
}

template <int kTileRows>
HWY_INLINE void multiplyRows(const IntegerTile &t) {
  const D32 d;
  V32 low[kTileRows], high[kTileRows];
  for (int r = 0; r < kTileRows; ++r) low[r] = high[r] = hn::Zero(d);
  const int16_t *b = t.b;
  for (int64_t p = 0; p < t.pairs; ++p, b += 2 * kColumns) {
    const auto left = hn::Load(D16(), b), right = hn::Load(D16(), b + 2 * kLanes);
    for (int r = 0; r < kTileRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, t.a + r * t.aStride + 2 * p, sizeof pair);
      const auto a = hn::BitCast(D16(), hn::Set(d, pair));
      low[r] = multiplyAdd(a, left, low[r]);
      high[r] = multiplyAdd(a, right, high[r]);
    }
  }
  HWY_ALIGN int32_t row[kColumns];
  for (int r = 0; r < kTileRows; ++r) {
    int32_t *out = t.out + r * t.outStride;
    if (t.columns == kColumns) {
      if (t.adds) low[r] = hn::Add(low[r], hn::LoadU(d, out)), high[r] = hn::Add(high[r], hn::LoadU(d, out + kLanes));
      hn::StoreU(low[r], d, out);
      hn::StoreU(high[r], d, out + kLanes);
      continue;
    }
    hn::Store(low[r], d, row);
    hn::Store(high[r], d, row + kLanes);
    for (int64_t c = 0; c < t.columns; ++c)
      out[c] = static_cast<int32_t>(static_cast<uint32_t>(row[c]) + (t.adds ? static_cast<uint32_t>(out[c]) : 0u));
  }
}

template <int kTileRows>
void multiplyUpTo(const IntegerTile &t) {
  if constexpr (kTileRows > 1)
    if (t.rows < kTileRows) return multiplyUpTo<kTileRows - 1>(t);
  multiplyRows<kTileRows>(t);
}
void multiply(const IntegerTile &t) { multiplyUpTo<kRows>(t); }

template <class T>
HWY_INLINE V32 promoted(const T *from) {
  return hn::PromoteTo(D32(), hn::LoadU(hn::Rebind<T, D32>(), from));
}

template <class T>
void widen(const T *from, int64_t count, int16_t *to) {
  const D16 d;
  constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(D16()));
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    if constexpr (sizeof(T) == 1)
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D16>(), from + i)), d, to + i);
    else
      hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[i];
}

template <class T>
void packPair(const T *first, const T *second, int64_t columns, int16_t *to) {
  const D32 d;
  const V32 low = hn::Set(d, 0xffff);
  auto *pairs = reinterpret_cast<int32_t *>(to);
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    const V32 high = second ? hn::ShiftLeft<16>(promoted(second + c)) : hn::Zero(d);
    hn::Store(hn::Or(hn::And(promoted(first + c), low), high), d, pairs + c);
  }
  for (; c < kColumns; ++c) {
    to[2 * c] = c < columns ? static_cast<int16_t>(first[c]) : int16_t{0};
    to[2 * c + 1] = c < columns && second ? static_cast<int16_t>(second[c]) : int16_t{0};
  }
}

template <class T>
constexpr IntegerSource<T> kSource = {widen<T>, packPair<T>};

const IntegerKernels *table() {
  static constexpr IntegerKernels kTable = {kRows,           kColumns,         multiply,
                                            kSource<int8_t>, kSource<uint8_t>, kSource<int16_t>};
  return &kTable;
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {

HWY_EXPORT(table);

const IntegerKernels &integerKernels() {
  static const IntegerKernels &kernels = *HWY_DYNAMIC_DISPATCH(table)();
  return kernels;
}

}  // namespace popart::cpu
#endif
