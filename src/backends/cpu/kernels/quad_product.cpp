// Tiles of 8-bit integers, compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quad_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/quad_product.hpp"
// clang-format on
#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace quads {
#if HWY_TARGET == HWY_SCALAR
// Plain loops, for targets whose vectors have no four bytes per number.
constexpr int kRows = 4, kColumns = 8;

void multiply(const QuadTile &t) {
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t c = 0; c < t.columns; ++c) {
      int32_t &out = t.out[r * t.outStride + c];
      auto sum = t.adds ? static_cast<uint32_t>(out) : 0u;
      for (const QuadTerm &term : t.terms)
        if (term.row) sum += static_cast<uint32_t>(term.row[r]) * static_cast<uint32_t>(term.column[c]);
      for (int64_t k = 0; k < 4 * t.quads; ++k)
        sum += static_cast<uint32_t>(t.a[r * t.aStride + k] * t.b[(k / 4 * kColumns + c) * 4 + k % 4]);
      out = static_cast<int32_t>(sum);
    }
}

int32_t copyRow(const uint8_t *from, int64_t count, uint8_t flip, uint8_t *to) {
  uint32_t sum = 0;
  int64_t i = 0;
  for (; i < count; ++i) sum += to[i] = from[i] ^ flip;
  for (; i % 4 != 0; ++i) to[i] = 0;
  return static_cast<int32_t>(sum);
}

void packQuad(const uint8_t *from, ptrdiff_t stride, int64_t rows, int64_t columns, uint8_t flip, int8_t *to) {
  for (int64_t c = 0; c < kColumns; ++c)
    for (int64_t r = 0; r < 4; ++r)
      to[4 * c + r] = static_cast<int8_t>(c < columns && r < rows ? from[r * stride + c] ^ flip : 0);
}

void copyRuns(std::span<const QuadRun> runs, uint8_t padding, uint8_t flip, const uint8_t *, uint8_t *to) {
  for (const QuadRun &run : runs)
    for (int64_t i = 0; i < run.count; ++i) *to++ = (run.from ? run.from[i] : padding) ^ flip;
}

void multiplyChannels(const QuadChannels &p) {
  for (int64_t c = 0; c < p.channels; ++c) {
    const uint8_t *panel = p.b + c / kColumns * p.panelStride;
    const auto *b = reinterpret_cast<const int8_t *>(panel + kColumns * sizeof(int32_t)) + 4 * (c % kColumns);
    uint32_t sum = 0;
    for (int64_t k = 0; k < 4 * p.quads; ++k) {
      const int32_t right = b[k / 4 * 4 * kColumns + k % 4] - (p.rightZeros ? p.rightZeros[c] : 0);
      sum += static_cast<uint32_t>(((p.taps[k][c] ^ p.flip) - p.padding) * right);
    }
    p.out[c] = static_cast<int32_t>(sum);
  }
}

constexpr QuadKernels kPlain = {kRows, kColumns, multiply, copyRow, packQuad, copyRuns, multiplyChannels};
#else
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most 16 numbers; a panel has two of them.
using D32 = hn::CappedTag<int32_t, kMostQuadColumns / 2>;
using D16 = hn::RepartitionToNarrow<D32>;
using D8 = hn::RepartitionToNarrow<D16>;
using V32 = hn::Vec<D32>;
using V16 = hn::Vec<D16>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D32()));
constexpr int kColumns = 2 * kLanes;
constexpr bool kHasManyRegisters = kLanes >= 16;

// sum + a[2i] b[2i] + a[2i + 1] b[2i + 1]
HWY_INLINE V32 multiplyAdd(V16 a, V16 b, V32 sum) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  V32 unused = hn::Zero(D32());  // one instruction if the processor has one; x86 does not use the second sum
  return hn::ReorderWidenMulAccumulate(D32(), a, b, sum, unused);
#else
  const D32 d;
  const V32 wideA = hn::BitCast(d, a), wideB = hn::BitCast(d, b);
  const V32 even = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(wideA)), hn::ShiftRight<16>(hn::ShiftLeft<16>(wideB)));
  return hn::Add(sum, hn::Add(even, hn::Mul(hn::ShiftRight<16>(wideA), hn::ShiftRight<16>(wideB))));
#endif
}

// Products of numbers widened to 16 bits, which represent them exactly: those at even positions and those at odd ones.
struct Halves {
  // The sums of a tile, four vectors of B and two of one number of A stay in registers.
  static constexpr int kRows = kHasManyRegisters ? kMostQuadRows : 4;
  struct Numbers {
    V16 even, odd;
  };
  static HWY_INLINE Numbers left(V32 quads) {
    const hn::RebindToUnsigned<D16> d;
    const auto both = hn::BitCast(d, quads);
    return {hn::BitCast(D16(), hn::And(both, hn::Set(d, 0xff))), hn::BitCast(D16(), hn::ShiftRight<8>(both))};
  }
  static HWY_INLINE Numbers right(V32 quads) {
    const V16 both = hn::BitCast(D16(), quads);
    return {hn::ShiftRight<8>(hn::ShiftLeft<8>(both)), hn::ShiftRight<8>(both)};
  }
  static HWY_INLINE V32 add(const Numbers &a, const Numbers &b, V32 sum) {
    return multiplyAdd(a.odd, b.odd, multiplyAdd(a.even, b.even, sum));
  }
};

#if HWY_TARGET == HWY_AVX3
// vpdpbusd, as inline assembly, because Highway's target is older than the instruction. Used only on processors that
// have it.
struct DotProducts {
  static constexpr int kRows = kMostQuadRows;
  using Numbers = V32;
  static HWY_INLINE V32 left(V32 quads) { return quads; }
  static HWY_INLINE V32 right(V32 quads) { return quads; }
  static HWY_INLINE V32 add(V32 a, V32 b, V32 sum) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
};
#endif

// Initial sums of one vector of columns.
HWY_INLINE V32 termsAt(const QuadTile &t, int64_t r, int64_t column) {
  const D32 d;
  V32 sum = hn::Zero(d);
  for (const QuadTerm &term : t.terms)
    if (term.row) sum = hn::Add(sum, hn::Mul(hn::Set(d, term.row[r]), hn::LoadU(d, term.column + column)));
  return sum;
}

HWY_INLINE void storeRow(const QuadTile &t, int64_t r, V32 low, V32 high) {
  const D32 d;
  int32_t *out = t.out + r * t.outStride;
  if (t.columns == kColumns) {
    if (t.adds) low = hn::Add(low, hn::LoadU(d, out)), high = hn::Add(high, hn::LoadU(d, out + kLanes));
    hn::StoreU(low, d, out);
    hn::StoreU(high, d, out + kLanes);
    return;
  }
  HWY_ALIGN int32_t row[kColumns];
  hn::Store(low, d, row);
  hn::Store(high, d, row + kLanes);
  for (int64_t c = 0; c < t.columns; ++c)
    out[c] = static_cast<int32_t>(static_cast<uint32_t>(row[c]) + (t.adds ? static_cast<uint32_t>(out[c]) : 0u));
}

template <class Dot, int kTileRows>
HWY_INLINE void multiplyRows(const QuadTile &t) {
  const D32 d;
  const D8 bytes;
  V32 low[kTileRows], high[kTileRows];
  for (int r = 0; r < kTileRows; ++r) low[r] = termsAt(t, r, 0), high[r] = termsAt(t, r, kLanes);
  const int8_t *b = t.b;
  for (int64_t q = 0; q < t.quads; ++q, b += 4 * kColumns) {
    const auto left = Dot::right(hn::BitCast(d, hn::LoadU(bytes, b)));
    const auto right = Dot::right(hn::BitCast(d, hn::LoadU(bytes, b + 4 * kLanes)));
    for (int r = 0; r < kTileRows; ++r) {
      int32_t quad;
      std::memcpy(&quad, t.a + r * t.aStride + 4 * q, sizeof quad);
      const auto a = Dot::left(hn::Set(d, quad));
      low[r] = Dot::add(a, left, low[r]);
      high[r] = Dot::add(a, right, high[r]);
    }
  }
  for (int r = 0; r < kTileRows; ++r) storeRow(t, r, low[r], high[r]);
}

template <class Dot, int kTileRows>
void multiplyUpTo(const QuadTile &t) {
  if constexpr (kTileRows > 1)
    if (t.rows < kTileRows) return multiplyUpTo<Dot, kTileRows - 1>(t);
  multiplyRows<Dot, kTileRows>(t);
}
template <class Dot>
void multiply(const QuadTile &t) {
  multiplyUpTo<Dot, Dot::kRows>(t);
}

int32_t copyRow(const uint8_t *from, int64_t count, uint8_t flip, uint8_t *to) {
  const hn::RebindToUnsigned<D8> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  constexpr int64_t kStep = 4 * kLanes;
  const auto flips = hn::Set(d, flip);
  auto sums = hn::Zero(d64);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto v = hn::Xor(hn::LoadU(d, from + i), flips);
    hn::StoreU(v, d, to + i);
    sums = hn::Add(sums, hn::SumsOf8(v));
  }
  auto sum = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d64, sums)));
  for (; i < count; ++i) {
    to[i] = from[i] ^ flip;
    sum += to[i];
  }
  for (; i % 4 != 0; ++i) to[i] = 0;
  return static_cast<int32_t>(sum);
}

// For sixteen columns (eight if panels are narrower): interleaves the bytes of rows 0 and 1, those of rows 2 and 3, and
// then the pairs.
void packQuad(const uint8_t *from, ptrdiff_t stride, int64_t rows, int64_t columns, uint8_t flip, int8_t *to) {
  constexpr int64_t kStep = std::min(16, kColumns);
  const hn::CappedTag<uint8_t, kStep> d;
  const hn::Repartition<uint16_t, decltype(d)> pairs;
  auto *out = reinterpret_cast<uint8_t *>(to);
  const auto flips = hn::Set(d, flip);
  const auto row = [&](int64_t r, int64_t c) {
    return r < rows ? hn::Xor(hn::LoadU(d, from + r * stride + c), flips) : hn::Zero(d);
  };
  int64_t c = 0;
  for (; c + kStep <= columns; c += kStep) {
    const auto a = row(0, c), b = row(1, c), e = row(2, c), f = row(3, c);
    const auto lowFirst = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
               highFirst = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
               lowLast = hn::BitCast(pairs, hn::InterleaveLower(d, e, f)),
               highLast = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
    const auto store = [&](int64_t place, auto v) { hn::StoreU(hn::BitCast(d, v), d, out + 4 * c + place * kStep); };
    store(0, hn::InterleaveLower(pairs, lowFirst, lowLast));
    store(1, hn::InterleaveUpper(pairs, lowFirst, lowLast));
    store(2, hn::InterleaveLower(pairs, highFirst, highLast));
    store(3, hn::InterleaveUpper(pairs, highFirst, highLast));
  }
  for (; c < kColumns; ++c)
    for (int64_t r = 0; r < 4; ++r) out[4 * c + r] = c < columns && r < rows ? from[r * stride + c] ^ flip : uint8_t{0};
}

void copyRuns(std::span<const QuadRun> runs, uint8_t padding, uint8_t flip, const uint8_t *end, uint8_t *to) {
  const hn::RebindToUnsigned<D8> d;
  constexpr int64_t kStep = 4 * kLanes;
  static_assert(kStep <= kQuadSlack);
  const auto flips = hn::Set(d, flip), paddings = hn::Set(d, static_cast<uint8_t>(padding ^ flip));
  for (const QuadRun &run : runs) {
    const uint8_t *from = run.from;
    uint8_t *out = to;
    to += run.count;
    if (!from) {
      for (; out < to; out += kStep) hn::StoreU(paddings, d, out);
      continue;
    }
    const int64_t whole = std::min<int64_t>(run.count, end - from - kStep + 1);
    int64_t i = 0;  // whole vectors; the last one may go beyond the run
    for (; i < whole; i += kStep) hn::StoreU(hn::Xor(hn::LoadU(d, from + i), flips), d, out + i);
    for (; i < run.count; ++i) out[i] = from[i] ^ flip;
  }
}

using Channels = hn::Rebind<uint8_t, D32>;

// Numbers of one tap, one per lane.
HWY_INLINE V32 loadChannels(const uint8_t *from, int64_t count, const uint8_t *end) {
  if (count >= kLanes || from + kLanes <= end) return hn::PromoteTo(D32(), hn::LoadU(Channels(), from));
  HWY_ALIGN uint8_t some[kLanes] = {};
  std::memcpy(some, from, static_cast<size_t>(count));
  return hn::PromoteTo(D32(), hn::Load(Channels(), some));
}

template <class Dot>
void multiplyChannels(const QuadChannels &p) {
  const D32 d;
  const D8 bytes;
  const V32 flips = hn::Set(d, p.flip ? static_cast<int32_t>(0x80808080) : 0);
  const auto ones = Dot::right(hn::Set(d, 0x01010101));
  for (int64_t c = 0; c < p.channels; c += kLanes) {
    const int64_t count = p.channels - c, half = c % kColumns;
    const uint8_t *panel = p.b + c / kColumns * p.panelStride;
    V32 sum = hn::Mul(hn::LoadU(d, reinterpret_cast<const int32_t *>(panel) + half), hn::Set(d, -p.padding));
    V32 lefts = hn::Set(d, -4 * static_cast<int32_t>(p.quads) * p.padding);
    const auto *b = reinterpret_cast<const int8_t *>(panel + kColumns * sizeof(int32_t)) + 4 * half;
    for (int64_t q = 0; q < p.quads; ++q, b += 4 * kColumns) {
      const uint8_t *const *taps = p.taps + 4 * q;
      const V32 low =
          hn::Or(loadChannels(taps[0] + c, count, p.end), hn::ShiftLeft<8>(loadChannels(taps[1] + c, count, p.end)));
      const V32 high = hn::Or(hn::ShiftLeft<16>(loadChannels(taps[2] + c, count, p.end)),
                              hn::ShiftLeft<24>(loadChannels(taps[3] + c, count, p.end)));
      const auto quad = Dot::left(hn::Xor(hn::Or(low, high), flips));
      sum = Dot::add(quad, Dot::right(hn::BitCast(d, hn::LoadU(bytes, b))), sum);
      if (p.rightZeros) lefts = Dot::add(quad, ones, lefts);
    }
    if (p.rightZeros) sum = hn::Sub(sum, hn::Mul(lefts, hn::LoadU(d, p.rightZeros + c)));
    hn::StoreU(sum, d, p.out + c);
  }
}

template <class Dot>
constexpr QuadKernels kKernels = {Dot::kRows, kColumns, multiply<Dot>,        copyRow,
                                  packQuad,   copyRuns, multiplyChannels<Dot>};

#endif

}  // namespace quads

std::span<const QuadKernels *const> quadTables() {
  static constexpr const QuadKernels *kTables[] = {
#if HWY_TARGET == HWY_SCALAR
    &quads::kPlain
#else
#if HWY_TARGET == HWY_AVX3
    &quads::kKernels<quads::DotProducts>,
#endif
    &quads::kKernels<quads::Halves>
#endif
  };
  const std::span<const QuadKernels *const> all = kTables;
#if HWY_TARGET == HWY_AVX3
  if (!__builtin_cpu_supports("avx512vnni")) return all.subspan(1);
#endif
  return all;
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {

HWY_EXPORT(quadTables);

std::span<const QuadKernels *const> quadKernelChoices() { return HWY_DYNAMIC_DISPATCH(quadTables)(); }

const QuadKernels &quadKernels() {
  static const QuadKernels &kernels = *quadKernelChoices().front();
  return kernels;
}

}  // namespace popart::cpu
#endif
