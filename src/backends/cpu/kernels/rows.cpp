// Row-wise kernels, compiled once per instruction set by Highway.
// Invariant: every sum accumulates in four vectors, by column modulo four vectors, and then reduces in one fixed order.
// The tail of a row is masked with neutral values, in the lanes that a full vector would use.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/rows.hpp"
#include "backends/cpu/vector/math-inl.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/kernels/softmax_gradient-inl.hpp"
// clang-format on
#include <algorithm>
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

HWY_INLINE float sumLanes(V a, V b, V c, V d) {
  return hn::GetLane(hn::SumOfLanes(D(), hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

// Sum of term.at(lanes, column) over the columns of one row; masked lanes must be zero.
template <class Term>
HWY_INLINE float sumRow(const Term &term, int64_t cols) {
  V s0 = hn::Zero(D()), s1 = s0, s2 = s0, s3 = s0;
  int64_t c = 0;
  for (; c + 4 * kLanes <= cols; c += 4 * kLanes) {
    s0 = hn::Add(s0, term.at(AllLanes(), c));
    s1 = hn::Add(s1, term.at(AllLanes(), c + kLanes));
    s2 = hn::Add(s2, term.at(AllLanes(), c + 2 * kLanes));
    s3 = hn::Add(s3, term.at(AllLanes(), c + 3 * kLanes));
  }
  for (; c + kLanes <= cols; c += kLanes) s0 = hn::Add(s0, term.at(AllLanes(), c));
  if (c < cols) s1 = hn::Add(s1, term.at(FirstLanes(cols - c), c));
  return sumLanes(s0, s1, s2, s3);
}

// Calls term.write(lanes, column) over the columns of one row.
template <class Term>
HWY_INLINE void writeRow(const Term &term, int64_t cols) {
  int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) term.write(AllLanes(), c);
  if (c < cols) term.write(FirstLanes(cols - c), c);
}

HWY_INLINE V onlyValid(AllLanes, V v) { return v; }
HWY_INLINE V onlyValid(FirstLanes lanes, V v) { return hn::IfThenElseZero(lanes.mask, v); }

HWY_INLINE float rowMaximum(const float *x, int64_t cols) {
  const V none = hn::Set(D(), -std::numeric_limits<float>::infinity());
  V m0 = none, m1 = none, m2 = none, m3 = none;
  int64_t c = 0;
  for (; c + 4 * kLanes <= cols; c += 4 * kLanes) {
    m0 = hn::Max(m0, hn::LoadU(D(), x + c));
    m1 = hn::Max(m1, hn::LoadU(D(), x + c + kLanes));
    m2 = hn::Max(m2, hn::LoadU(D(), x + c + 2 * kLanes));
    m3 = hn::Max(m3, hn::LoadU(D(), x + c + 3 * kLanes));
  }
  for (; c + kLanes <= cols; c += kLanes) m0 = hn::Max(m0, hn::LoadU(D(), x + c));
  float result = hn::GetLane(hn::MaxOfLanes(D(), hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
  for (; c < cols; ++c) result = x[c] > result ? x[c] : result;
  return result;
}

struct ShiftedExp {  // exp(x - shift), stored in y if y is not null
  const float *x;
  float *y;
  V shift;
  template <class Lanes>
  HWY_INLINE V at(Lanes lanes, int64_t c) const {
    const V e = math::exponential(hn::Sub(lanes.load(x + c), shift));
    if (y) lanes.store(e, y + c);
    return onlyValid(lanes, e);
  }
};
struct Scale {  // y = y * factor
  float *y;
  V factor;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    lanes.store(hn::Mul(lanes.load(y + c), factor), y + c);
  }
};
struct Shift {  // y = (x - first) - second
  const float *x;
  float *y;
  V first, second;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    lanes.store(hn::Sub(hn::Sub(lanes.load(x + c), first), second), y + c);
  }
};

void softmaxOf(SoftmaxForm form, const float *x, float *y, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r, x += cols, y += cols) {
    const V shift = hn::Set(D(), rowMaximum(x, cols));
    const bool probability = form == SoftmaxForm::kProbability;
    const float sum = sumRow(ShiftedExp{x, probability ? y : nullptr, shift}, cols);
    if (probability) {
      writeRow(Scale{y, hn::Set(D(), 1.0f / sum)}, cols);
    } else {
      writeRow(Shift{x, y, shift, hn::Set(D(), std::log(sum))}, cols);
    }
  }
}

struct Value {
  const float *x;
  template <class Lanes>
  HWY_INLINE V at(Lanes lanes, int64_t c) const {
    return lanes.load(x + c);
  }
};
struct ShiftedProduct {  // y (g - shift)
  const float *y, *g;
  V shift;
  template <class Lanes>
  HWY_INLINE V at(Lanes lanes, int64_t c) const {
    return onlyValid(lanes, softmax::weighted(lanes.load(y + c), hn::Sub(lanes.load(g + c), shift)));
  }
};
struct SoftmaxGradient {
  SoftmaxForm form;
  const float *y, *dy;
  float *dx;
  V shift, sum;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    lanes.store(softmax::gradient(form, lanes.load(y + c), lanes.load(dy + c), shift, sum), dx + c);
  }
};

// First position of the largest value; 0 if there is none (NaN).
int64_t placeOfMaximum(const float *x, int64_t cols) {
  const float best = rowMaximum(x, cols);
  const V wanted = hn::Set(D(), best);
  int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) {
    const intptr_t found = hn::FindFirstTrue(D(), hn::Eq(hn::LoadU(D(), x + c), wanted));
    if (found >= 0) return c + found;
  }
  while (c < cols && x[c] != best) ++c;
  return c < cols ? c : 0;
}

// Probabilities y add up to 1, so the result does not change when a constant is subtracted from all dy. With the dy of
// the largest probability, gradients that are exactly zero in mathematics (equal dy, or all probability at one
// position) are zero here, independent of how y was rounded.
void softmaxGradientOf(SoftmaxForm form, const float *y, const float *dy, float *dx, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r, y += cols, dy += cols, dx += cols) {
    const bool probability = form == SoftmaxForm::kProbability;
    const V shift = hn::Set(D(), probability ? dy[placeOfMaximum(y, cols)] : 0.0f);
    const float sum = probability ? sumRow(ShiftedProduct{y, dy, shift}, cols) : sumRow(Value{dy}, cols);
    writeRow(SoftmaxGradient{form, y, dy, dx, shift, hn::Set(D(), sum)}, cols);
  }
}

struct SquaredDistance {
  const float *x;
  V mean;
  template <class Lanes>
  HWY_INLINE V at(Lanes lanes, int64_t c) const {
    const V distance = hn::Sub(lanes.load(x + c), mean);
    return onlyValid(lanes, hn::Mul(distance, distance));
  }
};
struct Normalise {
  const LayerNorm &norm;
  const float *x;
  float *y;
  V mean, inverse;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    V v = hn::Mul(hn::Sub(lanes.load(x + c), mean), inverse);
    if (norm.scale) v = hn::Mul(v, lanes.load(norm.scale + c));
    if (norm.bias) v = hn::Add(v, lanes.load(norm.bias + c));
    lanes.store(v, y + c);
  }
};

void layerNormOf(const LayerNorm &norm, const float *x, float *y, float *mean, float *inverse, int64_t rows,
                 int64_t cols) {
  const auto count = static_cast<float>(cols);
  for (int64_t r = 0; r < rows; ++r, x += cols, y = y ? y + cols : y) {
    mean[r] = norm.form == NormForm::kCentred ? sumRow(Value{x}, cols) / count : 0.0f;
    const V middle = hn::Set(D(), mean[r]);
    inverse[r] = 1.0f / std::sqrt(sumRow(SquaredDistance{x, middle}, cols) / count + norm.epsilon);
    if (y) writeRow(Normalise{norm, x, y, middle, hn::Set(D(), inverse[r])}, cols);
  }
}

struct ShiftAndScale {  // y = (x - mean) scale + shift
  const float *x;
  float *y;
  V mean, scale, shift;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    lanes.store(hn::MulAdd(hn::Sub(lanes.load(x + c), mean), scale, shift), y + c);
  }
};
void normaliseRowOf(const float *x, float *y, int64_t cols, float mean, float scale, float shift) {
  writeRow(ShiftAndScale{x, y, hn::Set(D(), mean), hn::Set(D(), scale), hn::Set(D(), shift)}, cols);
}

RowSums gradientRowOf(const float *dy, const float *x, int64_t cols, float meanOfRow) {
  const V mean = hn::Set(D(), meanOfRow);
  V sums[2] = {hn::Zero(D()), hn::Zero(D())}, dots[2] = {hn::Zero(D()), hn::Zero(D())};
  const auto add = [&](auto lanes, int64_t c, size_t to) {  // lanes outside the row are zeros of dy
    const V g = lanes.load(dy + c);
    sums[to] = hn::Add(sums[to], g);
    dots[to] = hn::MulAdd(g, onlyValid(lanes, hn::Sub(lanes.load(x + c), mean)), dots[to]);
  };
  int64_t c = 0;
  for (; c + 2 * kLanes <= cols; c += 2 * kLanes) add(AllLanes(), c, 0), add(AllLanes(), c + kLanes, 1);
  for (; c + kLanes <= cols; c += kLanes) add(AllLanes(), c, 0);
  if (c < cols) add(FirstLanes(cols - c), c, 1);
  return {hn::GetLane(hn::SumOfLanes(D(), hn::Add(sums[0], sums[1]))),
          hn::GetLane(hn::SumOfLanes(D(), hn::Add(dots[0], dots[1])))};
}

struct GradientOfShift {  // dx = dy scale - (x - mean) slope - shift
  const float *dy, *x;
  float *dx;
  V mean, scale, slope, shift;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    const V rest = hn::NegMulAdd(hn::Sub(lanes.load(x + c), mean), slope, hn::Mul(lanes.load(dy + c), scale));
    lanes.store(hn::Sub(rest, shift), dx + c);
  }
};
void normaliseGradientOf(const RowGradient &row, const float *dy, const float *x, float *dx, int64_t cols) {
  writeRow(GradientOfShift{dy, x, dx, hn::Set(D(), row.mean), hn::Set(D(), row.scale), hn::Set(D(), row.slope),
                           hn::Set(D(), row.shift)},
           cols);
}

// g = dy * scale and h = normalised x, the two terms of the gradient.
struct NormTerms {
  const LayerNorm &norm;
  const float *x, *dy;
  V mean, inverse;
  template <class Lanes>
  HWY_INLINE V g(Lanes lanes, int64_t c) const {
    const V v = lanes.load(dy + c);
    return norm.scale ? hn::Mul(v, lanes.load(norm.scale + c)) : v;
  }
  template <class Lanes>
  HWY_INLINE V h(Lanes lanes, int64_t c) const {
    return hn::Mul(hn::Sub(lanes.load(x + c), mean), inverse);
  }
};
struct GradientSum {
  const NormTerms &terms;
  template <class Lanes>
  HWY_INLINE V at(Lanes lanes, int64_t c) const {
    return terms.g(lanes, c);
  }
};
struct GradientProduct {
  const NormTerms &terms;
  template <class Lanes>
  HWY_INLINE V at(Lanes lanes, int64_t c) const {
    return hn::Mul(terms.g(lanes, c), terms.h(lanes, c));
  }
};
struct NormGradient {
  const NormTerms &terms;
  float *dx;
  V meanG, meanGH;
  template <class Lanes>
  HWY_INLINE void write(Lanes lanes, int64_t c) const {
    const V rest = hn::Sub(terms.g(lanes, c), meanG);
    lanes.store(hn::Mul(terms.inverse, hn::NegMulAdd(terms.h(lanes, c), meanGH, rest)), dx + c);
  }
};

void layerNormGradientOf(const LayerNorm &norm, const float *x, const float *dy, const float *mean,
                         const float *inverse, float *dx, int64_t rows, int64_t cols) {
  const auto count = static_cast<float>(cols);
  for (int64_t r = 0; r < rows; ++r, x += cols, dy += cols, dx += cols) {
    const NormTerms terms{norm, x, dy, hn::Set(D(), mean[r]), hn::Set(D(), inverse[r])};
    const float meanG = norm.form == NormForm::kCentred ? sumRow(GradientSum{terms}, cols) / count : 0.0f;
    const float meanGH = sumRow(GradientProduct{terms}, cols) / count;
    writeRow(NormGradient{terms, dx, hn::Set(D(), meanG), hn::Set(D(), meanGH)}, cols);
  }
}

// Processes kVectors neighbouring vectors of columns in one pass over the rows, which are far apart in memory.
template <class Type, class Parameter, size_t kVectors, class Lanes>
HWY_INLINE void parameterColumns(Lanes lanes, const typename Type::Stored *x, const typename Type::Stored *dy,
                                 const float *mean, const float *inverse, typename Parameter::Stored *dScale,
                                 typename Parameter::Stored *dBias, int64_t rows, int64_t cols) {
  V scale[kVectors], bias[kVectors];
  for (size_t i = 0; i < kVectors; ++i) scale[i] = bias[i] = hn::Zero(D());
  for (int64_t r = 0; r < rows; ++r) {
    const V rowMean = hn::Set(D(), mean[r]), rowInverse = hn::Set(D(), inverse[r]);
    for (size_t i = 0; i < kVectors; ++i) {
      const int64_t at = r * cols + static_cast<int64_t>(i) * kLanes;
      const V g = Type::load(lanes, dy + at);
      const V h = hn::Mul(hn::Sub(Type::load(lanes, x + at), rowMean), rowInverse);
      scale[i] = hn::MulAdd(g, h, scale[i]);
      bias[i] = hn::Add(bias[i], g);
    }
  }
  for (size_t i = 0; i < kVectors; ++i) {
    Parameter::store(lanes, scale[i], dScale + static_cast<int64_t>(i) * kLanes);
    if (dBias) Parameter::store(lanes, bias[i], dBias + static_cast<int64_t>(i) * kLanes);
  }
}

template <class Type, class Parameter>
void parameterGradient(const typename Type::Stored *x, const typename Type::Stored *dy, const float *mean,
                       const float *inverse, typename Parameter::Stored *dScale, typename Parameter::Stored *dBias,
                       int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  int64_t c = begin;
  const auto bias = [&] { return dBias ? dBias + c : nullptr; };
  for (; c + 4 * kLanes <= end; c += 4 * kLanes)
    parameterColumns<Type, Parameter, 4>(AllLanes(), x + c, dy + c, mean, inverse, dScale + c, bias(), rows, cols);
  for (; c + kLanes <= end; c += kLanes)
    parameterColumns<Type, Parameter, 1>(AllLanes(), x + c, dy + c, mean, inverse, dScale + c, bias(), rows, cols);
  if (c == end) return;
  const FirstLanes tail(end - c);
  parameterColumns<Type, Parameter, 1>(tail, x + c, dy + c, mean, inverse, dScale + c, bias(), rows, cols);
}

void parameterGradientOf(DataType type, const void *x, const void *dy, const float *mean, const float *inverse,
                         DataType parameters, void *dScale, void *dBias, int64_t rows, int64_t cols, int64_t begin,
                         int64_t end) {
  const auto run = [&](auto kind, auto parameterKind) {
    using Type = decltype(kind);
    using Stored = typename Type::Stored;
    using Parameter = decltype(parameterKind);
    using Result = typename Parameter::Stored;
    parameterGradient<Type, Parameter>(static_cast<const Stored *>(x), static_cast<const Stored *>(dy), mean, inverse,
                                       static_cast<Result *>(dScale), static_cast<Result *>(dBias), rows, cols, begin,
                                       end);
  };
  const auto runWith = [&](auto kind) {
    return parameters == DataType::FLOAT ? run(kind, lanes::Float()) : run(kind, kind);
  };
  if (type == DataType::FLOAT16) return runWith(lanes::Float16());
  if (type == DataType::BFLOAT16) return runWith(lanes::Bfloat16());
  run(lanes::Float(), lanes::Float());
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(softmaxOf);
HWY_EXPORT(softmaxGradientOf);
HWY_EXPORT(layerNormOf);
HWY_EXPORT(normaliseRowOf);
HWY_EXPORT(gradientRowOf);
HWY_EXPORT(normaliseGradientOf);
HWY_EXPORT(layerNormGradientOf);
HWY_EXPORT(parameterGradientOf);

void softmaxRows(SoftmaxForm form, const float *x, float *y, int64_t rows, int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(softmaxOf)(form, x, y, rows, cols);
}

void softmaxGradientRows(SoftmaxForm form, const float *y, const float *dy, float *dx, int64_t rows,
                         int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(softmaxGradientOf)(form, y, dy, dx, rows, cols);
}

void layerNormRows(const LayerNorm &norm, const float *x, float *y, float *mean, float *inverseDeviation, int64_t rows,
                   int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(layerNormOf)(norm, x, y, mean, inverseDeviation, rows, cols);
}

void normaliseRow(const float *x, float *y, int64_t cols, float mean, float scale, float shift) noexcept {
  HWY_DYNAMIC_DISPATCH(normaliseRowOf)(x, y, cols, mean, scale, shift);
}

RowSums gradientSumsOfRow(const float *dy, const float *x, int64_t cols, float mean) noexcept {
  return HWY_DYNAMIC_DISPATCH(gradientRowOf)(dy, x, cols, mean);
}

void normaliseGradientRow(const RowGradient &row, const float *dy, const float *x, float *dx, int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(normaliseGradientOf)(row, dy, x, dx, cols);
}

void layerNormGradientRows(const LayerNorm &norm, const float *x, const float *dy, const float *mean,
                           const float *inverseDeviation, float *dx, int64_t rows, int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(layerNormGradientOf)(norm, x, dy, mean, inverseDeviation, dx, rows, cols);
}

void layerNormParameterGradient(DataType type, const void *x, const void *dy, const float *mean,
                                const float *inverseDeviation, DataType parameters, void *dScale, void *dBias,
                                int64_t rows, int64_t cols, int64_t begin, int64_t end) noexcept {
  HWY_DYNAMIC_DISPATCH(parameterGradientOf)
  (type, x, dy, mean, inverseDeviation, parameters, dScale, dBias, rows, cols, begin, end);
}
}  // namespace popart::cpu
#endif
