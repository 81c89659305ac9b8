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

// A matrix in memory: its elements by row and column.
template <class Type>
struct ColumnMatrix {
  using Stored = typename Type::Stored;
  ColumnMatrix(const void *first, const Columns &b) : elements(static_cast<const Stored *>(first)), stride(b.stride) {}
  template <class Lanes>
  HWY_INLINE V load(Lanes lanes, int64_t r, int64_t c) const {
    return Type::load(lanes, elements + r * stride + c);
  }
  const Stored *elements;
  ptrdiff_t stride;
};
template <class Type, class Lanes>
HWY_INLINE void storeColumn(Lanes lanes, V v, void *first, ptrdiff_t at) {
  Type::store(lanes, v, static_cast<typename Type::Stored *>(first) + at);
}

// f(Type) of the block's type.
template <class F>
HWY_INLINE void withColumnType(const Columns &b, F &&f) {
  if (b.type == DataType::FLOAT16) return f(lanes::Float16());
  if (b.type == DataType::BFLOAT16) return f(lanes::Bfloat16());
  f(lanes::Float());
}

template <class Type>
void sumColumns(const Columns &b, const void *first, double *sums) {
  const ColumnMatrix<Type> x(first, b);
  auto term = [=](auto lanes, int64_t r, int64_t c) { return x.load(lanes, r, c); };
  forChunks(b, [&](auto lanes, int64_t begin, int64_t end, int64_t c) {
    addChunk(lanes, term, begin, end, c, b.cols, sums);
  });
}
void sumsOf(const Columns &b, const void *x, double *total) {
  withColumnType(b, [&](auto type) { sumColumns<decltype(type)>(b, x, total); });
}

template <class Type>
void squareColumns(const Columns &b, const void *first, const float *mean, double *sums) {
  const ColumnMatrix<Type> x(first, b);
  forChunks(b, [&](auto lanes, int64_t begin, int64_t end, int64_t c) {
    const V m = lanes.load(mean + c);
    auto term = [=](auto l, int64_t r, int64_t at) {
      const V d = hn::Sub(x.load(l, r, at), m);
      return hn::Mul(d, d);
    };
    addChunk(lanes, term, begin, end, c, b.cols, sums);
  });
}
void squaresOf(const Columns &b, const void *x, const float *mean, double *total) {
  withColumnType(b, [&](auto type) { squareColumns<decltype(type)>(b, x, mean, total); });
}

template <class Type>
void sumGradientColumns(const Columns &b, const void *firstG, const void *firstX, const float *mean, double *sums,
                        double *dots) {
  const ColumnMatrix<Type> g(firstG, b), x(firstX, b);
  forChunks(b, [&](auto lanes, int64_t begin, int64_t end, int64_t c) {
    const V m = lanes.load(mean + c);
    auto plain = [=](auto l, int64_t r, int64_t at) { return g.load(l, r, at); };
    auto dot = [=](auto l, int64_t r, int64_t at) { return hn::Mul(g.load(l, r, at), hn::Sub(x.load(l, r, at), m)); };
    addChunk(lanes, plain, begin, end, c, b.cols, sums);
    addChunk(lanes, dot, begin, end, c, b.cols, dots);
  });
}
void gradientSumsOf(const Columns &b, const void *g, const void *x, const float *mean, double *total, double *dots) {
  withColumnType(b, [&](auto type) { sumGradientColumns<decltype(type)>(b, g, x, mean, total, dots); });
}

template <class Type>
void normaliseColumns(const Columns &b, const void *first, const float *mean, const float *scale, const float *shift,
                      void *y) {
  const ColumnMatrix<Type> x(first, b);
  for (int64_t r = 0; r < b.rows; ++r)
    forColumns(b.cols, [&](auto lanes, int64_t c) {
      const V d = hn::Sub(x.load(lanes, r, c), lanes.load(mean + c));
      storeColumn<Type>(lanes, hn::MulAdd(d, lanes.load(scale + c), lanes.load(shift + c)), y, r * b.stride + c);
    });
}
void normaliseOf(const Columns &b, const void *x, const float *mean, const float *scale, const float *shift, void *y) {
  withColumnType(b, [&](auto type) { normaliseColumns<decltype(type)>(b, x, mean, scale, shift, y); });
}

template <class Type>
void normaliseGradientColumns(const Columns &b, const void *firstG, const void *firstX, const float *mean,
                              const float *scale, const float *slope, const float *shift, void *dx) {
  const ColumnMatrix<Type> g(firstG, b), x(firstX, b);
  for (int64_t r = 0; r < b.rows; ++r)
    forColumns(b.cols, [&](auto lanes, int64_t c) {
      const V d = hn::Sub(x.load(lanes, r, c), lanes.load(mean + c));
      const V rest = hn::MulAdd(d, lanes.load(slope + c), lanes.load(shift + c));
      storeColumn<Type>(lanes, hn::MulSub(g.load(lanes, r, c), lanes.load(scale + c), rest), dx, r * b.stride + c);
    });
}
void normaliseGradientOf(const Columns &b, const void *g, const void *x, const float *mean, const float *scale,
                         const float *slope, const float *shift, void *dx) {
  withColumnType(b,
                 [&](auto type) { normaliseGradientColumns<decltype(type)>(b, g, x, mean, scale, slope, shift, dx); });
}

template <class Type>
void maximaOfColumns(const Columns &b, const void *first, float *out) {
  const ColumnMatrix<Type> x(first, b);
  forColumns(b.cols, [&](auto lanes, int64_t c) {
    V best = x.load(lanes, 0, c);
    for (int64_t r = 1; r < b.rows; ++r) {
      const V v = x.load(lanes, r, c);
      best = hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best);
    }
    lanes.store(best, out + c);
  });
}
void maximaOf(const Columns &b, const void *x, float *out) {
  withColumnType(b, [&](auto type) { maximaOfColumns<decltype(type)>(b, x, out); });
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

void columnSums(const Columns &b, const void *x, double *sums) noexcept { HWY_DYNAMIC_DISPATCH(sumsOf)(b, x, sums); }
void columnSquares(const Columns &b, const void *x, const float *mean, double *sums) noexcept {
  HWY_DYNAMIC_DISPATCH(squaresOf)(b, x, mean, sums);
}
void columnGradientSums(const Columns &b, const void *g, const void *x, const float *mean, double *sums,
                        double *dots) noexcept {
  HWY_DYNAMIC_DISPATCH(gradientSumsOf)(b, g, x, mean, sums, dots);
}
void columnNormalise(const Columns &b, const void *x, const float *mean, const float *scale, const float *shift,
                     void *y) noexcept {
  HWY_DYNAMIC_DISPATCH(normaliseOf)(b, x, mean, scale, shift, y);
}
void columnNormaliseGradient(const Columns &b, const void *g, const void *x, const float *mean, const float *scale,
                             const float *slope, const float *shift, void *dx) noexcept {
  HWY_DYNAMIC_DISPATCH(normaliseGradientOf)(b, g, x, mean, scale, slope, shift, dx);
}
void columnMaxima(const Columns &b, const void *x, float *out) noexcept { HWY_DYNAMIC_DISPATCH(maximaOf)(b, x, out); }
}  // namespace popart::cpu
#endif
