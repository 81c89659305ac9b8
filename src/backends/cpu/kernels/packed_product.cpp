// Kernels of packed right operands, compiled once per instruction set by Highway.
//
// A vector of words holds a few numbers of consecutive k of as many columns. A number is shifted down, made a float (by
// a table in a register, where a vector has as many elements as numbers of 4 bits have values), and multiplied by its
// scale; then it takes part in a multiply-add for each row. Two panels, four vectors, are computed at a time, so that
// multiply-adds of one row hide their latency.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/packed_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/packed_product.hpp"
// clang-format on
#include <algorithm>
#include <type_traits>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DWords = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
using Words = hn::Vec<DWords>;
constexpr size_t kLanes = hn::MaxLanes(D());
constexpr size_t kPanelVectors = 2;
constexpr int64_t kWidth = kPanelVectors * kLanes;
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr bool kHasTable = true;
#else
constexpr bool kHasTable = false;
#endif
constexpr ptrdiff_t kWordsAhead = 16;  // prefetch distance: 2 KiB of a panel

template <int kBits>
constexpr int64_t kPerWord = 32 / kBits;
template <int kBits>
constexpr bool kReadsTable = kHasTable &&kBits <= 4;

// Numbers of kBits bits as floats. kMoved: the table also subtracts the zero point of all blocks.
template <int kBits, bool kMoved>
struct Numbers {
  explicit Numbers(float middle) {
    if constexpr (kReadsTable<kBits>) {
      HWY_ALIGN float values[kLanes];
      for (size_t i = 0; i < kLanes; ++i)
        values[i] = static_cast<float>(i % (size_t{1} << kBits)) - (kMoved ? middle : 0.0f);
      table = hn::Load(D(), values);
    }
  }
  // Converts the number in the lowest bits; the bits above may be other numbers.
  HWY_INLINE V operator()(Words words) const {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    if constexpr (kReadsTable<kBits>) return V{_mm512_permutexvar_ps(words.raw, table.raw)};
#endif
    const Words numbers = hn::And(words, hn::Set(DWords(), (uint32_t{1} << kBits) - 1));
    return hn::ConvertTo(D(), hn::BitCast(hn::RebindToSigned<D>(), numbers));
  }
  V table;
};

HWY_INLINE V zerosOf(const PackedPanels &b, ptrdiff_t at) {
  if (b.byteZeros) {
    const hn::Rebind<uint8_t, D> bytes;
    return hn::ConvertTo(D(), hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(bytes, b.byteZeros + at)));
  }
  return b.zeros ? hn::LoadU(D(), b.zeros + at) : hn::Set(D(), b.middle);
}

// Loads NV vectors: two of each panel, panels `stride` elements apart.
template <size_t I>
constexpr ptrdiff_t offsetIn(ptrdiff_t stride) {
  return static_cast<ptrdiff_t>(I / kPanelVectors) * stride + static_cast<ptrdiff_t>(I % kPanelVectors * kLanes);
}

template <bool kMoved, class Number, size_t... I>
HWY_INLINE void weights(const Number &number, const Words *HWY_RESTRICT words, const V *HWY_RESTRICT zero,
                        const V *HWY_RESTRICT scale, V *HWY_RESTRICT w, std::index_sequence<I...>) {
  if constexpr (kMoved)
    ((w[I] = hn::Mul(number(words[I]), scale[I])), ...);
  else
    ((w[I] = hn::Mul(hn::Sub(number(words[I]), zero[I]), scale[I])), ...);
}

template <size_t... I>
HWY_INLINE void multiplyAddRow(V a, const V *HWY_RESTRICT w, V *HWY_RESTRICT acc, std::index_sequence<I...>) {
  ((acc[I] = hn::MulAdd(a, w[I], acc[I])), ...);
}

// Rows are addressed in groups of three from one base pointer, as in micro_kernel.cpp.
template <size_t NV, size_t... M>
HWY_INLINE void multiplyAddRows(const float *const *a, ptrdiff_t stride, ptrdiff_t k, const V *HWY_RESTRICT w,
                                V *HWY_RESTRICT acc, std::index_sequence<M...>) {
  (multiplyAddRow(hn::Set(D(), a[M / 3][static_cast<ptrdiff_t>(M % 3) * stride + k]), w, acc + M * NV,
                  std::make_index_sequence<NV>()),
   ...);
}

template <size_t... I>
HWY_INLINE void loadWords(const uint32_t *from, ptrdiff_t stride, Words *HWY_RESTRICT to, std::index_sequence<I...>) {
  ((to[I] = hn::LoadU(DWords(), from + offsetIn<I>(stride))), ...);
}
template <size_t... I>
HWY_INLINE void loadBlock(const PackedPanels &b, ptrdiff_t at, ptrdiff_t stride, V *HWY_RESTRICT zero,
                          V *HWY_RESTRICT scale, std::index_sequence<I...>) {
  ((zero[I] = zerosOf(b, at + offsetIn<I>(stride)), scale[I] = hn::LoadU(D(), b.scales + at + offsetIn<I>(stride))),
   ...);
}
template <int kBits, size_t... I>
HWY_INLINE void shiftWords(Words *HWY_RESTRICT words, std::index_sequence<I...>) {
  ((words[I] = hn::ShiftRight<kBits>(words[I])), ...);
}
template <size_t... I>
HWY_INLINE void askForWords(const uint32_t *from, ptrdiff_t stride, std::index_sequence<I...>) {
  (__builtin_prefetch(from + offsetIn<I>(stride), 0, 3), ...);
}

template <int kBits, bool kMoved, size_t MR, size_t NP>
HWY_NOINLINE void sums(const PackedTile &t) {
  constexpr size_t NV = NP * kPanelVectors, kBases = (MR + 2) / 3;
  constexpr auto kEach = std::make_index_sequence<NV>();
  constexpr auto kRows = std::make_index_sequence<MR>();
  const PackedPanels &b = *t.b;
  const Numbers<kBits, kMoved> number(b.middle);
  const ptrdiff_t wordStride = b.words * kWidth, blockStride = b.blocks * kWidth, aStride = t.aStride;
  const uint32_t *at = b.numbers + t.panel * wordStride;
  const float *base[kBases];
  for (size_t g = 0; g < kBases; ++g) base[g] = t.a + static_cast<ptrdiff_t>(3 * g) * aStride;
  V acc[MR * NV];
  for (size_t i = 0; i < MR * NV; ++i) acc[i] = hn::Zero(D());
  for (int64_t block = 0; block < b.blocks; ++block) {
    V zero[NV], scale[NV];
    loadBlock(b, t.panel * blockStride + block * kWidth, blockStride, zero, scale, kEach);
    int64_t left = std::min(b.block, b.depth - block * b.block);
    for (; left > 0; left -= kPerWord<kBits>) {
      Words words[NV];
      V w[NV];
      loadWords(at, wordStride, words, kEach);
      askForWords(at + kWordsAhead * kWidth, wordStride, kEach);
      at += kWidth;
      const auto step = [&](int64_t k) HWY_ATTR {
        weights<kMoved>(number, words, zero, scale, w, kEach);
        multiplyAddRows<NV>(base, aStride, k, w, acc, kRows);
        shiftWords<kBits>(words, kEach);
      };
      if (left >= kPerWord<kBits>) {
#pragma GCC unroll 16
        for (int64_t k = 0; k < kPerWord<kBits>; ++k) step(k);
      } else {
        for (int64_t k = 0; k < left; ++k) step(k);
      }
      for (size_t g = 0; g < kBases; ++g) base[g] += kPerWord<kBits>;
    }
  }
  for (size_t m = 0; m < MR; ++m)
    for (size_t i = 0; i < NV; ++i)
      hn::StoreU(acc[m * NV + i], D(), t.out + static_cast<ptrdiff_t>(m) * t.outStride + i * kLanes);
}

// Converts rows of a panel to floats.
template <int kBits, bool kMoved>
void floats(const PackedPanels &b, int64_t panel, int64_t first, int64_t count, float *to) {
  constexpr auto kEach = std::make_index_sequence<kPanelVectors>();
  const Numbers<kBits, kMoved> number(b.middle);
  const uint32_t *at = b.numbers + (panel * b.words + first / kPerWord<kBits>)*kWidth;
  for (int64_t k = first, end = first + count; k < end;) {
    const int64_t block = k / b.block, next = std::min(end, (block + 1) * b.block);
    V zero[kPanelVectors], scale[kPanelVectors];
    loadBlock(b, (panel * b.blocks + block) * kWidth, 0, zero, scale, kEach);
    for (; k < next; k += kPerWord<kBits>) {
      Words words[kPanelVectors];
      V w[kPanelVectors];
      loadWords(at, 0, words, kEach);
      at += kWidth;
      const auto step = [&](int64_t) HWY_ATTR {
        weights<kMoved>(number, words, zero, scale, w, kEach);
        for (size_t i = 0; i < kPanelVectors; ++i) hn::StoreU(w[i], D(), to + i * kLanes);
        shiftWords<kBits>(words, kEach);
        to += kWidth;
      };
      if (next - k >= kPerWord<kBits>) {
#pragma GCC unroll 16
        for (int64_t i = 0; i < kPerWord<kBits>; ++i) step(i);
      } else {
        for (int64_t i = k; i < next; ++i) step(i);
      }
    }
    k = next;
  }
}

constexpr size_t kRows = kManyRegisters ? 12 : 4;
constexpr size_t kWideRows = kManyRegisters ? 4 : 2;  // with this many rows, two panels fit into the registers
static_assert(kRows <= kMostPackedRows && 2 * kWidth <= kMostPackedColumns);

using SumsFn = void (*)(const PackedTile &);
// Kernels for NP panels, indexed by rows - 1.
template <int kBits, bool kMoved, size_t NP, size_t... M>
SumsFn sumsOf(int64_t rows, std::index_sequence<M...>) {
  static constexpr SumsFn kSums[] = {&sums<kBits, kMoved, M + 1, NP>...};
  return kSums[rows - 1];
}

template <int kBits, bool kMoved>
void multiplyPanels(PackedTile t) {
  if (t.panels == 2 && t.rows <= static_cast<int64_t>(kWideRows))
    return sumsOf<kBits, kMoved, 2>(t.rows, std::make_index_sequence<kWideRows>())(t);
  const SumsFn run = sumsOf<kBits, kMoved, 1>(t.rows, std::make_index_sequence<kRows>());
  for (int64_t p = 0; p < t.panels; ++p, ++t.panel, t.out += kWidth) run(t);
}

template <class F>
HWY_INLINE void withNumbers(const PackedPanels &b, F &&f) {
  const auto ofBits = [&](auto bits) {
    if (kReadsTable<bits.value> && !b.zeros && !b.byteZeros)
      f(bits, std::bool_constant<kReadsTable<bits.value>>());
    else
      f(bits, std::false_type());
  };
  if (b.bits == 8) return ofBits(std::integral_constant<int, 8>());
  if (b.bits == 4) return ofBits(std::integral_constant<int, 4>());
  ofBits(std::integral_constant<int, 2>());
}

void multiplyOf(const PackedTile &t) {
  withNumbers(*t.b, [&](auto bits, auto moved) { multiplyPanels<bits.value, moved.value>(t); });
}

void unpackOf(const PackedPanels &b, int64_t panel, int64_t k, int64_t count, float *to) {
  withNumbers(b, [&](auto bits, auto moved) { floats<bits.value, moved.value>(b, panel, k, count, to); });
}

PackedKernels makeKernels() { return {kRows, 2, kWidth, &multiplyOf, &unpackOf}; }

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(makeKernels);

PackedKernels dispatchPackedKernels() { return HWY_DYNAMIC_DISPATCH(makeKernels)(); }

const PackedKernels &packedKernels() {
  static const PackedKernels kernels = dispatchPackedKernels();
  return kernels;
}
}  // namespace popart::cpu
#endif
