// See attention_rows.hpp; compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/attention_rows.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
// clang-format on
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// exp(x) for x of at most a few: e^x = 2^n e^r with |r| <= ln(2) / 2, e^r by a polynomial (Cephes, error below 2 ulp).
// Results below the smallest normal number become zero; NaN and +inf give NaN.
HWY_INLINE V exponentialOfDifference(V x) {
  const D d;
  const hn::RebindToSigned<D> di;
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::MulAdd(hn::Set(d, 1.9875691500e-4f), r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0f)));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
  const V y = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), y);
}

HWY_INLINE V onlyValid(AllLanes, V v) { return v; }
HWY_INLINE V onlyValid(FirstLanes lanes, V v) { return hn::IfThenElseZero(lanes.mask, v); }

HWY_INLINE float largestOf(const float *x, int64_t cols) {
  const V low = hn::Set(D(), -kInfinity);
  V a = low, b = low;
  int64_t c = 0;
  for (; c + 2 * kLanes <= cols; c += 2 * kLanes)
    a = hn::Max(a, hn::LoadU(D(), x + c)), b = hn::Max(b, hn::LoadU(D(), x + c + kLanes));
  for (; c + kLanes <= cols; c += kLanes) a = hn::Max(a, hn::LoadU(D(), x + c));
  if (c < cols) {
    const FirstLanes tail(cols - c);
    b = hn::Max(b, hn::IfThenElse(tail.mask, tail.load(x + c), low));
  }
  return hn::GetLane(hn::MaxOfLanes(D(), hn::Max(a, b)));
}

template <class Lanes>
HWY_INLINE V exponentialAt(Lanes lanes, float *x, V shift) {
  const V e = exponentialOfDifference(hn::Sub(lanes.load(x), shift));
  lanes.store(e, x);
  return onlyValid(lanes, e);
}

// Computes x = exp(x - largest) and returns the sum.
HWY_INLINE float exponentials(float *x, float largest, int64_t cols) {
  const V shift = hn::Set(D(), largest);
  V a = hn::Zero(D()), b = a, e = a, f = a;
  int64_t c = 0;
  for (; c + 4 * kLanes <= cols; c += 4 * kLanes) {
    a = hn::Add(a, exponentialAt(AllLanes(), x + c, shift));
    b = hn::Add(b, exponentialAt(AllLanes(), x + c + kLanes, shift));
    e = hn::Add(e, exponentialAt(AllLanes(), x + c + 2 * kLanes, shift));
    f = hn::Add(f, exponentialAt(AllLanes(), x + c + 3 * kLanes, shift));
  }
  for (; c + kLanes <= cols; c += kLanes) a = hn::Add(a, exponentialAt(AllLanes(), x + c, shift));
  if (c < cols) b = hn::Add(b, exponentialAt(FirstLanes(cols - c), x + c, shift));
  return hn::GetLane(hn::SumOfLanes(D(), hn::Add(hn::Add(a, b), hn::Add(e, f))));
}

void softmaxPieceOf(float *s, ptrdiff_t stride, int64_t rows, int64_t cols, const RunningSoftmax &state) {
  for (int64_t r = 0; r < rows; ++r, s += stride) {
    const float before = state.largest[r], here = largestOf(s, cols), largest = here > before ? here : before;
    state.largest[r] = largest;
    if (largest == -kInfinity) {  // only masked keys so far, or NaN: exp(s - 0) is 0 or NaN
      state.factor[r] = 1.0f;
      state.sum[r] += exponentials(s, 0.0f, cols);
      continue;
    }
    state.factor[r] = before == largest ? 1.0f : std::exp(before - largest);
    state.sum[r] = state.sum[r] * state.factor[r] + exponentials(s, largest, cols);
  }
}

struct ScaledRow {
  const float *x;
  float *y;
  V factor, scale;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    lanes.store(hn::Mul(hn::Mul(lanes.load(x + c), factor), scale), y + c);
  }
};

struct GradientRow {
  const float *s;
  float *probability, *gradient;
  V largest, factor, shift;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    const V p = hn::Mul(exponentialOfDifference(hn::Sub(lanes.load(s + c), largest)), factor);
    const V g = hn::Mul(p, hn::Sub(lanes.load(gradient + c), shift));
    lanes.store(p, probability + c);
    lanes.store(g, gradient + c);
  }
};

template <class Row>
HWY_INLINE void writeRow(const Row &row, int64_t cols) {
  int64_t c = 0;
  for (; c + 2 * kLanes <= cols; c += 2 * kLanes) row.write(AllLanes(), c), row.write(AllLanes(), c + kLanes);
  for (; c + kLanes <= cols; c += kLanes) row.write(AllLanes(), c);
  if (c < cols) row.write(FirstLanes(cols - c), c);
}

void scaleRowsOf(const float *x, ptrdiff_t xStride, const float *factor, float scale, float *y, ptrdiff_t yStride,
                 int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    writeRow(ScaledRow{x + r * xStride, y + r * yStride, hn::Set(D(), factor ? factor[r] : 1.0f), hn::Set(D(), scale)},
             cols);
}

void probabilityGradientOf(const float *s, float largest, float total, float shift, float *probability, float *gradient,
                           int64_t cols) {
  writeRow(
      GradientRow{s, probability, gradient, hn::Set(D(), largest), hn::Set(D(), 1.0f / total), hn::Set(D(), shift)},
      cols);
}

float dotRowOf(const float *a, const float *b, int64_t cols) {
  V sum = hn::Zero(D());
  int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) sum = hn::MulAdd(hn::LoadU(D(), a + c), hn::LoadU(D(), b + c), sum);
  if (c < cols) {
    const FirstLanes tail(cols - c);
    sum = hn::Add(sum, onlyValid(tail, hn::Mul(tail.load(a + c), tail.load(b + c))));
  }
  return hn::GetLane(hn::SumOfLanes(D(), sum));
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(softmaxPieceOf);
HWY_EXPORT(scaleRowsOf);
HWY_EXPORT(probabilityGradientOf);
HWY_EXPORT(dotRowOf);

void softmaxPiece(float *s, ptrdiff_t stride, int64_t rows, int64_t cols, const RunningSoftmax &state) noexcept {
  HWY_DYNAMIC_DISPATCH(softmaxPieceOf)(s, stride, rows, cols, state);
}

void scaleRows(const float *x, ptrdiff_t xStride, const float *factor, float scale, float *y, ptrdiff_t yStride,
               int64_t rows, int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(scaleRowsOf)(x, xStride, factor, scale, y, yStride, rows, cols);
}

void probabilityGradient(const float *s, float largest, float total, float shift, float *probability, float *gradient,
                         int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(probabilityGradientOf)(s, largest, total, shift, probability, gradient, cols);
}

float dotRow(const float *a, const float *b, int64_t cols) noexcept {
  return HWY_DYNAMIC_DISPATCH(dotRowOf)(a, b, cols);
}
}  // namespace popart::cpu
#endif
