// Column kernels, compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/columns.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/columns.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
// clang-format on
#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kChunk = 64;  // rows summed in float

// Calls f(lanes, first column) over the columns.
template <class F>
HWY_INLINE void forColumns(int64_t cols, F &&f) {
  int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) f(AllLanes(), c);
  if (c < cols) f(FirstLanes(cols - c), c);
}

// sums[c] += the chunk's sums of term(lanes, row, column).
template <class Lanes, class Term>
HWY_INLINE void addChunk(Lanes lanes, const Term &term, int64_t begin, int64_t end, int64_t c, int64_t cols,
                         double *sums) {
  V sum = hn::Zero(D());
  for (int64_t r = begin; r < end; ++r) sum = hn::Add(sum, term(lanes, r, c));
  HWY_ALIGN float whole[hn::MaxLanes(D())];
  hn::Store(sum, D(), whole);
  const int64_t count = std::min(kLanes, cols - c);
  for (int64_t i = 0; i < count; ++i) sums[c + i] += static_cast<double>(whole[i]);
}

template <class F>
HWY_INLINE void forChunks(const Columns &b, F &&f) {
  for (int64_t begin = 0; begin < b.rows; begin += kChunk) {
    const int64_t end = std::min(b.rows, begin + kChunk);
    forColumns(b.cols, [&](auto lanes, int64_t c) { f(lanes, begin, end, c); });
  }
}

void sumsOf(const Columns &b, const float *x, double *sums) {
  const ptrdiff_t stride = b.stride;
  auto term = [=](auto lanes, int64_t r, int64_t c) { return lanes.load(x + r * stride + c); };
  forChunks(b, [&](auto lanes, int64_t begin, int64_t end, int64_t c) {
    addChunk(lanes, term, begin, end, c, b.cols, sums);
  });
}

void squaresOf(const Columns &b, const float *x, const float *mean, double *sums) {
  const ptrdiff_t stride = b.stride;
  forChunks(b, [&](auto lanes, int64_t begin, int64_t end, int64_t c) {
    const V m = lanes.load(mean + c);
    auto term = [=](auto l, int64_t r, int64_t at) {
      const V d = hn::Sub(l.load(x + r * stride + at), m);
      return hn::Mul(d, d);
    };
    addChunk(lanes, term, begin, end, c, b.cols, sums);
  });
}

void gradientSumsOf(const Columns &b, const float *g, const float *x, const float *mean, double *sums, double *dots) {
  const ptrdiff_t stride = b.stride;
  forChunks(b, [&](auto lanes, int64_t begin, int64_t end, int64_t c) {
    const V m = lanes.load(mean + c);
    auto plain = [=](auto l, int64_t r, int64_t at) { return l.load(g + r * stride + at); };
    auto dot = [=](auto l, int64_t r, int64_t at) {
      return hn::Mul(l.load(g + r * stride + at), hn::Sub(l.load(x + r * stride + at), m));
    };
    addChunk(lanes, plain, begin, end, c, b.cols, sums);
    addChunk(lanes, dot, begin, end, c, b.cols, dots);
  });
}

void normaliseOf(const Columns &b, const float *x, const float *mean, const float *scale, const float *shift,
                 float *y) {
  for (int64_t r = 0; r < b.rows; ++r)
    forColumns(b.cols, [&](auto lanes, int64_t c) {
      const V d = hn::Sub(lanes.load(x + r * b.stride + c), lanes.load(mean + c));
      lanes.store(hn::MulAdd(d, lanes.load(scale + c), lanes.load(shift + c)), y + r * b.stride + c);
    });
}

void normaliseGradientOf(const Columns &b, const float *g, const float *x, const float *mean, const float *scale,
                         const float *slope, const float *shift, float *dx) {
  for (int64_t r = 0; r < b.rows; ++r)
    forColumns(b.cols, [&](auto lanes, int64_t c) {
      const V d = hn::Sub(lanes.load(x + r * b.stride + c), lanes.load(mean + c));
      const V rest = hn::MulAdd(d, lanes.load(slope + c), lanes.load(shift + c));
      lanes.store(hn::MulSub(lanes.load(g + r * b.stride + c), lanes.load(scale + c), rest), dx + r * b.stride + c);
    });
}

void maximaOf(const Columns &b, const float *x, float *out) {
  forColumns(b.cols, [&](auto lanes, int64_t c) {
    V best = lanes.load(x + c);
    for (int64_t r = 1; r < b.rows; ++r) {
      const V v = lanes.load(x + r * b.stride + c);
      best = hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best);
    }
    lanes.store(best, out + c);
  });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(sumsOf);
HWY_EXPORT(squaresOf);
HWY_EXPORT(gradientSumsOf);
HWY_EXPORT(normaliseOf);
HWY_EXPORT(normaliseGradientOf);
HWY_EXPORT(maximaOf);

void columnSums(const Columns &b, const float *x, double *sums) noexcept { HWY_DYNAMIC_DISPATCH(sumsOf)(b, x, sums); }
void columnSquares(const Columns &b, const float *x, const float *mean, double *sums) noexcept {
  HWY_DYNAMIC_DISPATCH(squaresOf)(b, x, mean, sums);
}
void columnGradientSums(const Columns &b, const float *g, const float *x, const float *mean, double *sums,
                        double *dots) noexcept {
  HWY_DYNAMIC_DISPATCH(gradientSumsOf)(b, g, x, mean, sums, dots);
}
void columnNormalise(const Columns &b, const float *x, const float *mean, const float *scale, const float *shift,
                     float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(normaliseOf)(b, x, mean, scale, shift, y);
}
void columnNormaliseGradient(const Columns &b, const float *g, const float *x, const float *mean, const float *scale,
                             const float *slope, const float *shift, float *dx) noexcept {
  HWY_DYNAMIC_DISPATCH(normaliseGradientOf)(b, g, x, mean, scale, slope, shift, dx);
}
void columnMaxima(const Columns &b, const float *x, float *out) noexcept { HWY_DYNAMIC_DISPATCH(maximaOf)(b, x, out); }
}  // namespace popart::cpu
#endif
