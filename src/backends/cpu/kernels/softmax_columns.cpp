// Processes two rows at a time, so that the values of each column, which are in the first level cache, are read once
// for both. More rows, which are pages apart, would compete for the same sets of that cache. Sums are chains over 128
// rows, whose results are added in order; this keeps the error of long sums small.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/softmax_columns.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/softmax_columns.hpp"
#include "backends/cpu/vector/math-inl.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/kernels/softmax_gradient-inl.hpp"
// clang-format on
#include <algorithm>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kStrip = 1024;  // columns at a time: 4 KiB per value of a column

// Calls term(lanes, column) over the columns.
template <class Term>
HWY_INLINE void overColumns(int64_t columns, const Term &term) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) term(AllLanes(), c);
  if (c < columns) term(FirstLanes(columns - c), c);
}

// Calls term(lanes, column, offset of its first row, count) over groups of `count` rows, a constant.
template <class Term>
HWY_INLINE void overRows(const ColumnBlock &block, int64_t first, int64_t end, const Term &term) {
  constexpr int64_t kGroup = 2;
  const auto group = [&](int64_t row, auto count) {
    overColumns(block.columns, [&](auto lanes, int64_t c) { term(lanes, c, row * block.stride + c, count); });
  };
  for (; first + kGroup <= end; first += kGroup) group(first, std::integral_constant<int64_t, kGroup>());
  for (; first < end; ++first) group(first, std::integral_constant<int64_t, 1>());
}

// Calls strip(block of at most kStrip columns, its first column).
template <class Strip>
HWY_INLINE void overStrips(const ColumnBlock &block, const Strip &strip) {
  for (int64_t c = 0; c < block.columns; c += kStrip)
    strip(ColumnBlock{block.stride, block.rows, std::min(kStrip, block.columns - c)}, c);
}

// The vectors of `count` rows from one offset on. All are read before one is written, because processors confuse
// addresses that are a multiple of a page apart.
template <class Lanes, int64_t count>
struct RowVectors {
  V of[count];

  HWY_INLINE RowVectors(Lanes lanes, const float *from, int64_t stride) {
    for (int64_t i = 0; i < count; ++i) of[i] = lanes.load(from + i * stride);
  }
  HWY_INLINE void store(Lanes lanes, float *to, int64_t stride) const {
    for (int64_t i = 0; i < count; ++i) lanes.store(of[i], to + i * stride);
  }
};

// sums[c] = sum of term(lanes, column, offset) over the rows of at most kStrip columns.
template <class Term>
HWY_INLINE void sumColumns(const ColumnBlock &block, float *sums, const Term &term) {
  constexpr int64_t kChain = 128;
  HWY_ALIGN float partOfLong[kStrip];
  float *part = block.rows > kChain ? partOfLong : sums;
  std::fill_n(sums, block.columns, 0.0f);
  for (int64_t row = 0; row < block.rows; row += kChain) {
    std::fill_n(part, block.columns, 0.0f);
    overRows(block, row, std::min(row + kChain, block.rows), [&](auto lanes, int64_t c, int64_t at, auto count) {
      const auto terms = term(lanes, c, at, count);
      V sum = lanes.load(part + c);
      for (int64_t i = 0; i < count; ++i) sum = hn::Add(sum, terms.of[i]);
      lanes.store(sum, part + c);
    });
    if (part == sums) return;
    overColumns(block.columns, [&](auto lanes, int64_t c) {
      lanes.store(hn::Add(lanes.load(sums + c), lanes.load(part + c)), sums + c);
    });
  }
}

template <SoftmaxForm kForm>
void exponentialSums(const ColumnBlock &whole, const float *x, float *y, const float *maxima, float *sums) {
  overStrips(whole, [&](const ColumnBlock &block, int64_t first) {
    sumColumns(block, sums + first, [&](auto lanes, int64_t c, int64_t at, auto count) {
      RowVectors<decltype(lanes), count> rows(lanes, x + first + at, block.stride);
      const V shift = lanes.load(maxima + first + c);
      for (V &v : rows.of) v = math::exponential(hn::Sub(v, shift));
      if constexpr (kForm == SoftmaxForm::kProbability) rows.store(lanes, y + first + at, block.stride);
      return rows;
    });
  });
}
void exponentialSumsOf(SoftmaxForm form, const ColumnBlock &block, const float *x, float *y, const float *maxima,
                       float *sums) {
  if (form == SoftmaxForm::kProbability)
    exponentialSums<SoftmaxForm::kProbability>(block, x, y, maxima, sums);
  else
    exponentialSums<SoftmaxForm::kLogarithm>(block, x, y, maxima, sums);
}

void softmaxScalesOf(SoftmaxForm form, int64_t columns, float *sums) {
  overColumns(columns, [&](auto lanes, int64_t c) {
    const V sum = lanes.load(sums + c);
    lanes.store(form == SoftmaxForm::kProbability ? hn::Div(hn::Set(D(), 1.0f), sum) : math::logarithm(sum), sums + c);
  });
}

// y = value(lanes, x, column) over whole rows.
template <class Value>
HWY_INLINE void mapColumns(const ColumnBlock &whole, const float *x, float *y, const Value &value) {
  overStrips(whole, [&](const ColumnBlock &block, int64_t first) {
    overRows(block, 0, block.rows, [&](auto lanes, int64_t c, int64_t at, auto count) {
      RowVectors<decltype(lanes), count> rows(lanes, x + first + at, block.stride);
      for (V &v : rows.of) v = value(lanes, v, first + c);
      rows.store(lanes, y + first + at, block.stride);
    });
  });
}
void softmaxEndOf(SoftmaxForm form, const ColumnBlock &block, const float *x, float *y, const float *maxima,
                  const float *scales) {
  if (form == SoftmaxForm::kProbability)
    return mapColumns(block, y, y, [&](auto lanes, V v, int64_t c) { return hn::Mul(v, lanes.load(scales + c)); });
  mapColumns(block, x, y, [&](auto lanes, V v, int64_t c) {
    return hn::Sub(hn::Sub(v, lanes.load(maxima + c)), lanes.load(scales + c));
  });
}

void columnLargestOf(const ColumnBlock &whole, const float *y, const float *dy, float *largest, float *there) {
  std::copy_n(y, whole.columns, largest);
  std::copy_n(dy, whole.columns, there);
  overStrips(whole, [&](const ColumnBlock &block, int64_t first) {
    overRows(block, 1, block.rows, [&](auto lanes, int64_t c, int64_t at, auto count) {
      V best = lanes.load(largest + first + c), value = lanes.load(there + first + c);
      for (int64_t i = 0; i < count; ++i, at += block.stride) {
        const V candidate = lanes.load(y + first + at);
        const auto better = hn::Gt(candidate, best);
        best = hn::IfThenElse(better, candidate, best);
        value = hn::IfThenElse(better, lanes.load(dy + first + at), value);
      }
      lanes.store(best, largest + first + c);
      lanes.store(value, there + first + c);
    });
  });
}

void softmaxDotsOf(const ColumnBlock &whole, const float *y, const float *dy, const float *shift, float *sums) {
  overStrips(whole, [&](const ColumnBlock &block, int64_t first) {
    sumColumns(block, sums + first, [&](auto lanes, int64_t c, int64_t at, auto count) {
      RowVectors<decltype(lanes), count> rows(lanes, dy + first + at, block.stride);
      const V taken = lanes.load(shift + first + c);
      at += first;
      for (V &g : rows.of) g = softmax::weighted(lanes.load(y + at), hn::Sub(g, taken)), at += block.stride;
      return rows;
    });
  });
}

void softmaxColumnGradientOf(SoftmaxForm form, const ColumnBlock &whole, const float *y, const float *dy, float *dx,
                             const float *shift, const float *sums) {
  const bool probability = form == SoftmaxForm::kProbability;
  overStrips(whole, [&](const ColumnBlock &block, int64_t first) {
    overRows(block, 0, block.rows, [&](auto lanes, int64_t c, int64_t at, auto count) {
      const V sum = lanes.load(sums + first + c), taken = probability ? lanes.load(shift + first + c) : sum;
      RowVectors<decltype(lanes), count> out(lanes, y + first + at, block.stride),
          rows(lanes, dy + first + at, block.stride);
      for (int64_t i = 0; i < count; ++i) rows.of[i] = softmax::gradient(form, out.of[i], rows.of[i], taken, sum);
      rows.store(lanes, dx + first + at, block.stride);
    });
  });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(exponentialSumsOf);
HWY_EXPORT(softmaxScalesOf);
HWY_EXPORT(softmaxEndOf);
HWY_EXPORT(columnLargestOf);
HWY_EXPORT(softmaxDotsOf);
HWY_EXPORT(softmaxColumnGradientOf);

void softmaxColumnSums(SoftmaxForm form, const ColumnBlock &block, const float *x, float *y, const float *maxima,
                       float *sums) noexcept {
  HWY_DYNAMIC_DISPATCH(exponentialSumsOf)(form, block, x, y, maxima, sums);
}
void softmaxColumnScales(SoftmaxForm form, int64_t columns, float *sums) noexcept {
  HWY_DYNAMIC_DISPATCH(softmaxScalesOf)(form, columns, sums);
}
void softmaxColumnEnd(SoftmaxForm form, const ColumnBlock &block, const float *x, float *y, const float *maxima,
                      const float *scales) noexcept {
  HWY_DYNAMIC_DISPATCH(softmaxEndOf)(form, block, x, y, maxima, scales);
}
void largestOfColumns(const ColumnBlock &block, const float *y, const float *dy, float *largest,
                      float *there) noexcept {
  HWY_DYNAMIC_DISPATCH(columnLargestOf)(block, y, dy, largest, there);
}
void softmaxColumnDots(const ColumnBlock &block, const float *y, const float *dy, const float *shift,
                       float *sums) noexcept {
  HWY_DYNAMIC_DISPATCH(softmaxDotsOf)(block, y, dy, shift, sums);
}
void softmaxColumnGradient(SoftmaxForm form, const ColumnBlock &block, const float *y, const float *dy, float *dx,
                           const float *shift, const float *sums) noexcept {
  HWY_DYNAMIC_DISPATCH(softmaxColumnGradientOf)(form, block, y, dy, dx, shift, sums);
}
}  // namespace popart::cpu
#endif
