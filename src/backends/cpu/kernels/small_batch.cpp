// Small-batch products, compiled once per instruction set by Highway.
//
// Data gradient: four weight rows times a few batch rows of accumulators; lanes run along the packed panels, and four
// accumulators of one batch row are folded into four neighbouring outputs by interleaving adds.
// Weight update: a tile of weight rows by one panel accumulates its gradient and updates the weight in registers, so
// the weight is read and written once and the gradient never reaches memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/small_batch.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/small_batch.hpp"
#include "backends/cpu/kernels/update-inl.hpp"
// clang-format on
#include <algorithm>
#include <cstring>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kWidth = 2 * kLanes;
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
constexpr size_t kFold = 4;

// out[0..3] = sums of the lanes of v[0..3]
HWY_INLINE void foldFour(const V *HWY_RESTRICT v, float *HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < kFold; ++i) out[i] = hn::GetLane(v[i]);
#else
  const D d;
  const hn::Repartition<double, D> dd;
  const V ab = hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const V cd = hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto ab2 = hn::BitCast(dd, ab);
  const auto cd2 = hn::BitCast(dd, cd);
  const V abcd =
      hn::Add(hn::BitCast(d, hn::InterleaveLower(dd, ab2, cd2)), hn::BitCast(d, hn::InterleaveUpper(dd, ab2, cd2)));
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<D> h;
  const auto half = hn::Add(hn::LowerHalf(h, abcd), hn::UpperHalf(h, abcd));
  const hn::Half<hn::Half<D> > q;
  hn::StoreU(hn::Add(hn::LowerHalf(q, half), hn::UpperHalf(q, half)), q, out);
#elif HWY_TARGET <= HWY_AVX2
  const hn::Half<D> h;
  hn::StoreU(hn::Add(hn::LowerHalf(h, abcd), hn::UpperHalf(h, abcd)), h, out);
#else
  hn::StoreU(abcd, d, out);
#endif
#endif
}

template <size_t... R>
HWY_INLINE void dotRow(V *HWY_RESTRICT acc, V a, const V *HWY_RESTRICT w, std::index_sequence<R...>) {
  ((acc[R] = hn::MulAdd(a, w[R], acc[R])), ...);
}

template <class Lanes, size_t... M>
HWY_INLINE void dotStep(V *HWY_RESTRICT acc, Lanes lanes, const float *a, ptrdiff_t aStride, const V *HWY_RESTRICT w,
                        std::index_sequence<M...>) {
  (dotRow(acc + M * kFold, lanes.load(a + static_cast<ptrdiff_t>(M) * aStride), w, std::make_index_sequence<kFold>()),
   ...);
}

template <size_t... I>
HWY_INLINE void zero(V *HWY_RESTRICT acc, std::index_sequence<I...>) {
  ((acc[I] = hn::Zero(D())), ...);
}

// Four weight rows times kRows batch rows; `rows` holds the four row offsets inside a panel.
template <size_t kRows>
void dotTile(const DotArgs &t, int64_t m, const int64_t *rows, float *out) {
  constexpr auto kRowSeq = std::make_index_sequence<kRows>();
  V acc[kRows * kFold];
  V w[kFold];
  zero(acc, std::make_index_sequence<kRows * kFold>());
  const float *a = t.a + m * t.aStride;
  const float *p0 = t.b + rows[0], *p1 = t.b + rows[1], *p2 = t.b + rows[2], *p3 = t.b + rows[3];
  const ptrdiff_t panelStride = t.n * kWidth;
  const auto load = [&](ptrdiff_t at) HWY_ATTR {
    w[0] = hn::LoadU(D(), p0 + at);
    w[1] = hn::LoadU(D(), p1 + at);
    w[2] = hn::LoadU(D(), p2 + at);
    w[3] = hn::LoadU(D(), p3 + at);
  };
  int64_t k = 0;
  ptrdiff_t at = 0;
  for (; k + kWidth <= t.k; k += kWidth, at += panelStride) {
    load(at);
    dotStep(acc, AllLanes(), a + k, t.aStride, w, kRowSeq);
    load(at + kLanes);
    dotStep(acc, AllLanes(), a + k + kLanes, t.aStride, w, kRowSeq);
  }
  for (; k < t.k; k += kLanes, at += kLanes) {
    load(at);
    const FirstLanes tail(std::min(kLanes, t.k - k));
    dotStep(acc, tail, a + k, t.aStride, w, kRowSeq);
  }
  for (size_t i = 0; i < kRows; ++i) foldFour(acc + i * kFold, out + i * kFold);
}

using DotFn = void (*)(const DotArgs &, int64_t, const int64_t *, float *);
constexpr int64_t kMostDotRows = kManyRegisters ? 6 : 2;  // with kFold accumulators each: 24 or 8 registers
constexpr DotFn kDotTiles[6] = {&dotTile<1>, &dotTile<2>, &dotTile<3>, &dotTile<4>, &dotTile<5>, &dotTile<6>};

void dotOf(const DotArgs &t, int64_t begin, int64_t end) {
  const int64_t blocks = (t.m + kMostDotRows - 1) / kMostDotRows;
  constexpr auto fold = static_cast<int64_t>(kFold);
  for (int64_t n = begin; n < end; n += fold) {
    int64_t rows[kFold];
    for (int64_t i = 0; i < fold; ++i) rows[i] = std::min(n + i, t.n - 1) * kWidth;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t m = t.m * block / blocks, count = t.m * (block + 1) / blocks - m;
      float out[6 * kFold];
      kDotTiles[count - 1](t, m, rows, out);
      const auto bytes = static_cast<size_t>(std::min(fold, end - n)) * sizeof(float);
      for (int64_t i = 0; i < count; ++i) std::memcpy(t.out + (m + i) * t.outStride + n, out + i * fold, bytes);
    }
  }
}

template <size_t... R>
HWY_INLINE void outerStep(V *HWY_RESTRICT acc, const float *a, V b0, V b1, std::index_sequence<R...>) {
  ((acc[2 * R] = hn::MulAdd(hn::Set(D(), a[R]), b0, acc[2 * R]),
    acc[2 * R + 1] = hn::MulAdd(hn::Set(D(), a[R]), b1, acc[2 * R + 1])),
   ...);
}

template <UpdateKind kKind, size_t... I>
HWY_INLINE void updateTile(const Update &u, const V *HWY_RESTRICT acc, float *w, ptrdiff_t at,
                           std::index_sequence<I...>) {
  (update::updateVector<kKind>(u, AllLanes(), acc[I], w, at + static_cast<ptrdiff_t>(I) * kLanes), ...);
}

// The gradient of kRows rows of one panel, in registers. b points at the panel's columns, all kWidth readable.
template <size_t kRows>
HWY_INLINE void outerSums(const OuterUpdateArgs &t, const float *b, ptrdiff_t bStride, int64_t row,
                          V *HWY_RESTRICT acc) {
  zero(acc, std::make_index_sequence<2 * kRows>());
  const float *a = t.a + row;
  for (int64_t k = 0; k < t.k; ++k) {
    outerStep(acc, a, hn::LoadU(D(), b), hn::LoadU(D(), b + kLanes), std::make_index_sequence<kRows>());
    a += t.aStride;
    b += bStride;
  }
}

template <UpdateKind kKind, size_t kRows>
HWY_INLINE void outerTile(const OuterUpdateArgs &t, const float *b, ptrdiff_t bStride, int64_t row, float *w) {
  V acc[2 * kRows];
  outerSums<kRows>(t, b, bStride, row, acc);
  updateTile<kKind>(*t.update, acc, w, 0, std::make_index_sequence<2 * kRows>());
}

constexpr int64_t kTileRows = kManyRegisters ? 12 : 4;  // with two accumulators each: 24 or 8 registers

// Rows [begin, end) of one panel; w is row `begin` of it.
template <UpdateKind kKind>
void outerPanel(const OuterUpdateArgs &t, const float *b, ptrdiff_t bStride, int64_t begin, int64_t end, float *w) {
  int64_t row = begin;
  for (; row + kTileRows <= end; row += kTileRows, w += kTileRows * kWidth)
    outerTile<kKind, kTileRows>(t, b, bStride, row, w);
  for (; row < end; ++row, w += kWidth) outerTile<kKind, 1>(t, b, bStride, row, w);
}

// The gradient of a few tiles is buffered in the first level cache and applied to the weight there.
void outerElements(const OuterUpdateArgs &t, const float *b, ptrdiff_t bStride, int64_t begin, int64_t end, float *w,
                   int64_t cols) {
  constexpr int64_t kMostRows = 48 / kTileRows * kTileRows;
  HWY_ALIGN float gradient[kMostRows * kWidth];
  for (int64_t row = begin; row < end; row += kMostRows, w += kMostRows * kWidth) {
    const int64_t rows = std::min(kMostRows, end - row);
    outerPanel<UpdateKind::kStore>(t, b, bStride, row, row + rows, gradient);
    applyPanelUpdate(*t.update, gradient, kWidth, w, kWidth, rows, cols);
  }
}

void outerUpdateOf(const OuterUpdateArgs &t, int64_t begin, int64_t end, int64_t firstPanel, int64_t endPanel) {
  HWY_ALIGN float tail[kMaxOuterDepth * kWidth];
  for (int64_t p = firstPanel; p < endPanel; ++p) {
    const float *b = t.b + p * kWidth;
    ptrdiff_t bStride = t.bStride;
    const int64_t cols = std::min(kWidth, t.n - p * kWidth);
    if (cols < kWidth) {
      std::fill_n(tail, t.k * kWidth, 0.0f);
      for (int64_t k = 0; k < t.k; ++k)
        std::memcpy(tail + k * kWidth, b + k * bStride, static_cast<size_t>(cols) * sizeof(float));
      b = tail;
      bStride = kWidth;
    }
    float *w = t.w + (p * t.m + begin) * kWidth;
    switch (t.update->kind) {
      case UpdateKind::kStore:
        outerPanel<UpdateKind::kStore>(t, b, bStride, begin, end, w);
        break;
      case UpdateKind::kSgd:
        outerPanel<UpdateKind::kSgd>(t, b, bStride, begin, end, w);
        break;
      case UpdateKind::kElements:
        outerElements(t, b, bStride, begin, end, w, cols);
        break;
    }
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(dotOf);
HWY_EXPORT(outerUpdateOf);

void dotPackedTransposed(const DotArgs &args, int64_t begin, int64_t end) noexcept {
  HWY_DYNAMIC_DISPATCH(dotOf)(args, begin, end);
}

void updateByOuterProducts(const OuterUpdateArgs &args, int64_t begin, int64_t end, int64_t firstPanel,
                           int64_t endPanel) noexcept {
  HWY_DYNAMIC_DISPATCH(outerUpdateOf)(args, begin, end, firstPanel, endPanel);
}
}  // namespace popart::cpu
#endif
