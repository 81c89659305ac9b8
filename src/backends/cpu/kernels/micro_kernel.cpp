// Register-tile kernels, compiled once per instruction set by Highway.
//
// A tile is MR rows times NV vectors of accumulators. Each k step loads NV vectors of B, broadcasts one element of A
// per row and issues MR * NV multiply-adds. With 6 x 4 (32 registers) the multiply-add units are the limit; with
// 14 x 2, on some processors, the 16 loads are. Accumulators are expanded with index sequences, so that the compiler
// keeps each of them in a register of its own.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/micro_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/micro_kernel.hpp"
#include "backends/cpu/kernels/bounds-inl.hpp"
// clang-format on
#include <algorithm>
#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/ceil_div.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr size_t kLanes = hn::MaxLanes(D());
constexpr int kPanelVectors = 2;
constexpr int kPanelWidth = kPanelVectors * static_cast<int>(kLanes);
constexpr int kTileRows = HWY_TARGET <= HWY_AVX3 ? 14 : 6;
constexpr size_t kWideRows = HWY_TARGET <= HWY_AVX3 ? 6 : 0;

// NV vectors of the panels from vector kFirst on.
template <size_t kFirst, size_t... I>
HWY_INLINE void loadB(V *HWY_RESTRICT b, const float *HWY_RESTRICT p, ptrdiff_t panelStride,
                      std::index_sequence<I...>) {
  ((b[I] = hn::LoadU(D(), p + static_cast<ptrdiff_t>((kFirst + I) / kPanelVectors) * panelStride +
                              ((kFirst + I) % kPanelVectors) * kLanes)),
   ...);
}

constexpr bool isRows(AMode mode) { return mode == AMode::kRows || mode == AMode::kLaneRows; }
constexpr bool isLanes(AMode mode) { return mode == AMode::kLaneRows || mode == AMode::kLanePanel; }
// The stride of A that aStride is not.
constexpr ptrdiff_t otherStride(AMode mode) { return isLanes(mode) ? kPanelWidth : 1; }

// The factor of vector I of a row that begins at `a`.
template <AMode kMode, size_t I>
HWY_INLINE V factor(const float *a) {
  if constexpr (isLanes(kMode)) return hn::LoadU(D(), a + I * kLanes);
  return hn::Set(D(), *a);
}

// Lane types: what a lane contains, and how it is added to the sum.
struct Floats {
  // The assembly fixes the form of the instruction. The compiler would also choose forms that overwrite a factor, and
  // then copy registers: on a core that another thread uses as well, the number of instructions is the limit.
  static HWY_INLINE V multiplyAdd(V a, V b, V sum) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum.raw) : "v"(b.raw), "v"(a.raw));
    return sum;
#else
    return hn::MulAdd(a, b, sum);
#endif
  }
};
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
struct Bfloat16Pairs {
  // sum + a[0] b[0] + a[1] b[1]. Highway has no operation for this instruction.
  static HWY_INLINE V multiplyAdd(V a, V b, V sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(b.raw), "v"(a.raw));
    return sum;
  }
};
#endif

template <class Lane, AMode kMode, size_t... I>
HWY_INLINE void fmaRow(V *HWY_RESTRICT acc, const float *a, const V *HWY_RESTRICT b, std::index_sequence<I...>) {
  // A factor that is used once should be a memory operand of its multiply-add, which the compiler must choose.
  if constexpr (sizeof...(I) == 1 && std::is_same_v<Lane, Floats>)
    acc[0] = hn::MulAdd(factor<kMode, 0>(a), b[0], acc[0]);
  else
    ((acc[I] = Lane::multiplyAdd(factor<kMode, I>(a), b[I], acc[I])), ...);
}

// One k step. Rows are addressed in groups of three from one base pointer (base, + stride, + 2 * stride are single
// addressing modes), which keeps the number of address registers below the machine's limit.
template <class Lane, AMode kMode, size_t NV, size_t... M>
HWY_INLINE void fmaTile(V *HWY_RESTRICT acc, const float *const *a, ptrdiff_t stride, const V *HWY_RESTRICT b,
                        std::index_sequence<M...>) {
  (fmaRow<Lane, kMode>(acc + M * NV,
                       isRows(kMode) ? a[M / 3] + static_cast<ptrdiff_t>(M % 3) * stride
                                     : a[0] + static_cast<ptrdiff_t>(M) * otherStride(kMode),
                       b, std::make_index_sequence<NV>()),
   ...);
}

template <AMode kMode, size_t... G>
HWY_INLINE void advance(const float **a, ptrdiff_t stride, std::index_sequence<G...>) {
  ((a[G] += isRows(kMode) ? otherStride(kMode) : stride), ...);
}

template <size_t NV, size_t... I>
HWY_INLINE void loadAcc(V *HWY_RESTRICT acc, const float *HWY_RESTRICT in, ptrdiff_t stride,
                        std::index_sequence<I...>) {
  ((acc[I] = in ? hn::LoadU(D(), in + static_cast<ptrdiff_t>(I / NV) * stride + (I % NV) * kLanes) : hn::Zero(D())),
   ...);
}

template <size_t NV, size_t... I>
HWY_INLINE void storeAcc(const V *HWY_RESTRICT acc, float *HWY_RESTRICT out, ptrdiff_t stride,
                         std::index_sequence<I...>) {
  (hn::StoreU(acc[I], D(), out + static_cast<ptrdiff_t>(I / NV) * stride + (I % NV) * kLanes), ...);
}

template <size_t NV, size_t... I>
HWY_INLINE void addBias(V *HWY_RESTRICT acc, const float *HWY_RESTRICT bias, std::index_sequence<I...>) {
  ((acc[I] = hn::Add(acc[I], hn::LoadU(D(), bias + (I % NV) * kLanes))), ...);
}

template <size_t NV, size_t... I>
HWY_INLINE void addRows(V *HWY_RESTRICT acc, const float *rows, ptrdiff_t stride, std::index_sequence<I...>) {
  ((acc[I] = hn::Add(acc[I], hn::LoadU(D(), rows + static_cast<ptrdiff_t>(I / NV) * stride + (I % NV) * kLanes))), ...);
}

template <size_t... I>
HWY_INLINE void boundBelow(V *HWY_RESTRICT acc, V low, std::index_sequence<I...>) {
  ((acc[I] = bounds::atLeast(acc[I], low)), ...);
}
template <size_t... I>
HWY_INLINE void boundAbove(V *HWY_RESTRICT acc, V high, std::index_sequence<I...>) {
  ((acc[I] = bounds::atMost(acc[I], high)), ...);
}

// Offsets of a register tile, in floats, from the arguments of its call: in A, the partial sums, the results, the
// residual, the columns, and the prefetched memory. It is not a modified copy of the arguments, which would be made
// with vectors: such a load of numbers that were stored one by one waits for all earlier stores, so for the results of
// the register tile before.
struct Part {
  ptrdiff_t a, in, out, residual, column, ahead, next;
};
struct WholeCall {
  static constexpr ptrdiff_t a = 0, in = 0, out = 0, residual = 0, column = 0, ahead = 0, next = 0;
};

template <size_t NV, class Each, class Place>
HWY_INLINE void finish(V *HWY_RESTRICT acc, const TileEnd &end, Each each, const Place &at) {
  if (end.bias) addBias<NV>(acc, end.bias + at.column, each);
  if (end.residual) addRows<NV>(acc, end.residual + at.residual, end.residualStride, each);
  if (end.hasLow()) boundBelow(acc, hn::Set(D(), end.low), each);
  if (end.hasHigh()) boundAbove(acc, hn::Set(D(), end.high), each);
}

// kPlain: without prefetch of B and without an epilogue, so that it needs no registers and instructions for them.
enum class Form : uint8_t { kPlain, kExtended };
// kPacked: rows of a panel of B are contiguous, so that addresses of several steps are constants in instructions.
enum class RowsOfB : uint8_t { kPacked, kStrided };

template <Form kForm, RowsOfB kRowsOfB, class Lane, AMode kMode, size_t MR, size_t NV, size_t kFirst, class Place>
HWY_NOINLINE void sums(const TileArgs &t, const Place &at) {
  constexpr bool kExtended = kForm == Form::kExtended;
  constexpr size_t kBases = isRows(kMode) ? (MR + 2) / 3 : 1;
  constexpr auto kAcc = std::make_index_sequence<MR * NV>();
  constexpr auto kBaseSeq = std::make_index_sequence<kBases>();
  V acc[MR * NV];
  V b[NV];
  loadAcc<NV>(acc, t.in ? t.in + at.in : nullptr, t.inStride, kAcc);
  const ptrdiff_t stride = t.aStride;
  const ptrdiff_t bStride = kRowsOfB == RowsOfB::kPacked ? kPanelWidth : t.bStride;
  const ptrdiff_t bPanelStride = t.bPanelStride;
  const float *ahead = t.ahead ? t.ahead + at.ahead : t.b;  // prefetching a cached line costs little
  const ptrdiff_t aheadStride = t.ahead ? t.aheadStride : 0;
  [[maybe_unused]] const float *next = t.next ? t.next + at.next : t.b;
  [[maybe_unused]] const ptrdiff_t nextHalf = t.next ? t.nextStride / 2 : 0;  // saves a register; few are left
  for (int64_t r = 0; r < t.blockCount; ++r) {
    const float *base[kBases];
    const float *a = t.a + at.a + t.blocks[r].a;
    for (size_t g = 0; g < kBases; ++g) base[g] = a + static_cast<ptrdiff_t>(3 * g) * stride;
    const float *pb = t.b + t.blocks[r].b;
    int64_t k = t.k;
    for (; k >= kStepsPerLine; k -= kStepsPerLine) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += aheadStride;
      if constexpr (kExtended) {
        __builtin_prefetch(next, 0, 2);
        __builtin_prefetch(next + nextHalf, 0, 2);
        next += 2 * nextHalf;
      }
#pragma GCC unroll kStepsPerLine
      for (int step = 0; step < kStepsPerLine; ++step) {
        loadB<kFirst>(b, pb, bPanelStride, std::make_index_sequence<NV>());
        fmaTile<Lane, kMode, NV>(acc, base, stride, b, std::make_index_sequence<MR>());
        advance<kMode>(base, stride, kBaseSeq);
        pb += bStride;
      }
    }
    for (; k > 0; --k) {
      loadB<kFirst>(b, pb, bPanelStride, std::make_index_sequence<NV>());
      fmaTile<Lane, kMode, NV>(acc, base, stride, b, std::make_index_sequence<MR>());
      advance<kMode>(base, stride, kBaseSeq);
      pb += bStride;
    }
  }
  if constexpr (kExtended) finish<NV>(acc, t.end, kAcc, at);
  storeAcc<NV>(acc, t.out + at.out, t.outStride, kAcc);
}

template <Form kForm, class Lane, AMode kMode, size_t MR, size_t NV, size_t kFirst, class Place>
void sumsOf(const TileArgs &t, const Place &at) {
  if constexpr (NV > kPanelVectors)
    if (t.bStride == kPanelWidth) return sums<kForm, RowsOfB::kPacked, Lane, kMode, MR, NV, kFirst>(t, at);
  sums<kForm, RowsOfB::kStrided, Lane, kMode, MR, NV, kFirst>(t, at);
}

// kFirst: first vector of B, relative to t.b.
template <class Lane, AMode kMode, size_t MR, size_t NV, size_t kFirst, class Place>
void tileAt(const TileArgs &t, const Place &at) {
  if constexpr (!isLanes(kMode))
    if (t.next || t.end.isUsed()) return sumsOf<Form::kExtended, Lane, kMode, MR, NV, kFirst>(t, at);
  sumsOf<Form::kPlain, Lane, kMode, MR, NV, kFirst>(t, at);
}

// A call of one register tile.
template <class Lane, AMode kMode, size_t MR, size_t NV>
void tile(const TileArgs &t) {
  tileAt<Lane, kMode, MR, NV, 0>(t, WholeCall());
}

// Runs register tile `number` of a call, from a row and a column on. Its prefetches follow those of the tiles before
// it.
template <AMode kMode>
Part partAt(const TileArgs &t, ptrdiff_t number, ptrdiff_t row, ptrdiff_t column) {
  return {row * (isRows(kMode) ? t.aStride : 1),
          row * t.inStride + column,
          row * t.outStride + column,
          row * t.end.residualStride + column,
          column,
          number * t.aheadPartStride,
          number * t.blockCount * (t.k / kStepsPerLine) * t.nextStride};
}

constexpr size_t partsOf(size_t rows) { return kWideRows == 0 ? 1 : (rows + kWideRows - 1) / kWideRows; }

// Two panels: the rows are split into register tiles.
template <class Lane, AMode kMode, size_t MR, size_t kRow = 0, size_t kNumber = 0>
void twoPanels(const TileArgs &t) {
  constexpr size_t kParts = partsOf(MR - kRow), kRows = (MR - kRow + kParts - 1) / kParts;
  tileAt<Lane, kMode, kRows, 2 * kPanelVectors, 0>(t, partAt<kMode>(t, kNumber, kRow, 0));
  if constexpr (kRow + kRows < MR) twoPanels<Lane, kMode, MR, kRow + kRows, kNumber + 1>(t);
}

// Three panels: two register tiles, each with all rows and a panel and a half.
template <class Lane, AMode kMode, size_t MR>
void threePanels(const TileArgs &t) {
  constexpr size_t kVectors = 3 * kPanelVectors / 2;
  tileAt<Lane, kMode, MR, kVectors, 0>(t, partAt<kMode>(t, 0, 0, 0));
  tileAt<Lane, kMode, MR, kVectors, kVectors>(t, partAt<kMode>(t, 1, 0, kVectors * kLanes));
}

template <class Lane, AMode kMode, size_t... M>
void fillTable(MicroKernels &table, std::index_sequence<M...>) {
  constexpr auto kAt = static_cast<size_t>(kMode);
  ((table.full[kAt][M] = &tile<Lane, kMode, M + 1, kPanelVectors>), ...);
  ((table.narrow[kAt][M] = &tile<Lane, kMode, M + 1, kPanelVectors / 2>), ...);
}

// The number of panels that kernels for this many rows cover. Two panels would need register tiles of few rows if the
// rows do not divide well, and those read B faster than the second level cache delivers.
constexpr int widePanelsOf(size_t rows) {
  if (rows == 1) return kMaxTilePanels;  // one row has too few independent chains to hide the latency of a multiply-add
  if (kWideRows == 0) return rows == 2 ? 2 : 1;  // 16 registers
  if (rows <= kWideRows || 2 * rows >= 9 * partsOf(rows)) return 2;
  return rows <= 8 ? 3 : 1;
}

template <class Lane, AMode kMode, size_t MR>
void addWide(MicroKernels &table) {
  constexpr int kPanels = widePanelsOf(MR);
  TileFn &run = table.wide[static_cast<size_t>(kMode)][MR - 1];
  table.widePanels[MR - 1] = kPanels;
  table.wideParts[MR - 1] = kPanels == 2 ? partsOf(MR) : kPanels == 3 ? 2 : 1;
  if constexpr (kPanels == 2) run = &twoPanels<Lane, kMode, MR>;
  if constexpr (kPanels == 3) run = &threePanels<Lane, kMode, MR>;
  if constexpr (kPanels == kMaxTilePanels) run = &tile<Lane, kMode, MR, kMaxTilePanels * kPanelVectors>;
}

template <class Lane, AMode kMode, size_t... M>
void fillWide(MicroKernels &table, std::index_sequence<M...>) {
  (addWide<Lane, kMode, M + 1>(table), ...);
}

template <class Lane>
MicroKernels makeTable() {
  static_assert(kPanelWidth <= kMaxPanelWidth && kTileRows <= kMaxTileRows);
  MicroKernels table{};
  table.instructionSet = hwy::TargetName(HWY_TARGET);
  table.panelWidth = kPanelWidth;
  table.tileRows = kTileRows;
  table.wideRows = static_cast<int>(kWideRows);
  constexpr auto kEach = std::make_index_sequence<kTileRows>();
  fillTable<Lane, AMode::kRows>(table, kEach);
  fillTable<Lane, AMode::kPanel>(table, kEach);
  if constexpr (std::is_same_v<Lane, Floats>) {
    fillTable<Lane, AMode::kLaneRows>(table, kEach);
    fillTable<Lane, AMode::kLanePanel>(table, kEach);
  }
  fillWide<Lane, AMode::kRows>(table, kEach);
  fillWide<Lane, AMode::kPanel>(table, kEach);
  return table;
}

MicroKernels floatTable() { return makeTable<Floats>(); }
// Without rows if there is no such instruction.
MicroKernels bfloat16Table() {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (__builtin_cpu_supports("avx512bf16")) return makeTable<Bfloat16Pairs>();
#endif
  return {};
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(floatTable);
HWY_EXPORT(bfloat16Table);
const MicroKernels &microKernels() {
  static const MicroKernels table = HWY_DYNAMIC_DISPATCH(floatTable)();
  return table;
}
const MicroKernels *bfloat16Kernels() {
  static const MicroKernels table = HWY_DYNAMIC_DISPATCH(bfloat16Table)();
  return table.tileRows > 0 ? &table : nullptr;
}

MicroKernels::Choice MicroKernels::choose(AMode mode, int rows, int64_t columns) const {
  const auto at = static_cast<size_t>(rows - 1), kind = static_cast<size_t>(mode);
  if (2 * columns <= panelWidth) return {narrow[kind][at], 1, panelWidth / 2, 1};
  const int panels = mode == AMode::kRows || mode == AMode::kPanel ? widePanels[at] : 1;
  if (panels > 1 && columns > static_cast<int64_t>(panels - 1) * panelWidth)
    return {wide[kind][at], panels, panels * panelWidth, wideParts[at]};
  return {full[kind][at], 1, panelWidth, 1};
}

RowTiles RowTiles::ofOne(int64_t rows) {
  RowTiles tiles;
  tiles.rows_ = rows;
  tiles.count_ = tiles.parts_ = rows > 0 ? 1 : 0;
  return tiles;
}

int64_t RowTiles::sameRows(int64_t tiles) const { return ceilDiv(tiles * microKernels().tileRows, most_); }

RowTiles::RowTiles(int64_t rows, int64_t columns) : rows_(rows) {
  const MicroKernels &kernels = microKernels();
  // Products of one row have many tasks of few panels.
  if (columns > kernels.panelWidth && kernels.wideRows > 0 && rows > 1)
    panels_ = rows <= kernels.tileRows ? kernels.widePanels[rows - 1] : 2;
  const int64_t part = panels_ == 2 ? kernels.wideRows : kernels.tileRows, partsPerTile = kernels.tileRows / part;
  parts_ = ceilDiv(rows, part);
  count_ = ceilDiv(parts_, partsPerTile);
  most_ = part * partsPerTile;
}
}  // namespace popart::cpu
#endif
