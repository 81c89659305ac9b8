// Rows: four vectors of partial results, then their lanes. Columns: chains over blocks of rows, then a chain over the
// block results, which keeps the rounding error of long sums small. Many columns are read four whole rows at a time,
// with the chains in the first level cache; few columns keep the chains in registers. The order is the same. In double,
// columns are one chain.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/reduce_ops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/vector/math-inl.hpp"
#include "backends/cpu/vector/reduce_ops.hpp"
// clang-format on
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::FirstLanes;

template <ReduceOp kOp>
HWY_INLINE V identity() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return hn::Set(D(), kOp == ReduceOp::kMax ? -kInfinity : kOp == ReduceOp::kMin ? kInfinity : 0.0f);
}
template <ReduceOp kOp>
HWY_INLINE V combine(V a, V b) {
  if constexpr (kOp == ReduceOp::kMax) return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b);
  if constexpr (kOp == ReduceOp::kMin) return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b);
  return hn::Add(a, b);
}
template <ReduceOp kOp>
HWY_INLINE V step(V total, V x, [[maybe_unused]] V shift) {
  if constexpr (kOp == ReduceOp::kSumExp) return hn::Add(total, math::exponential(hn::Sub(x, shift)));
  if constexpr (kOp == ReduceOp::kSumDistance) return hn::MulAdd(hn::Sub(x, shift), hn::Sub(x, shift), total);
  if constexpr (kOp == ReduceOp::kSumSquare) return hn::MulAdd(x, x, total);
  if constexpr (kOp == ReduceOp::kSumAbs) return hn::Add(total, hn::Abs(x));
  return combine<kOp>(total, x);
}

template <ReduceOp kOp>
HWY_INLINE float ofLanes(V v) {
  if constexpr (kOp == ReduceOp::kMax) return hn::GetLane(hn::MaxOfLanes(D(), v));
  if constexpr (kOp == ReduceOp::kMin) return hn::GetLane(hn::MinOfLanes(D(), v));
  return hn::GetLane(hn::SumOfLanes(D(), v));
}

// Instruction sets differ in the results of kMax and kMin with NaN, so NaN is detected separately: its bits without the
// sign exceed those of infinity.
template <ReduceOp kOp>
struct ExtremeTotal {
  using Bits = hn::RebindToUnsigned<D>;
  V best;
  hn::Vec<Bits> largest;  // bits without the sign

  static HWY_INLINE ExtremeTotal none() { return {identity<kOp>(), hn::Zero(Bits())}; }
  HWY_INLINE void add(V x, V) {
    best = better(best, x);
    largest = hn::Max(largest, hn::BitCast(Bits(), hn::Abs(x)));
  }
  HWY_INLINE void addFirst(hn::Mask<D> first, V x, V shift) { add(hn::IfThenElse(first, x, identity<kOp>()), shift); }
  HWY_INLINE void join(const ExtremeTotal &other) {
    best = better(best, other.best);
    largest = hn::Max(largest, other.largest);
  }
  HWY_INLINE float result() const {
    const bool hasNan = !hn::AllFalse(Bits(), hn::Gt(largest, hn::Set(Bits(), 0x7f800000u)));
    return hasNan ? std::numeric_limits<float>::quiet_NaN() : ofLanes<kOp>(best);
  }
  static HWY_INLINE V better(V a, V b) { return kOp == ReduceOp::kMax ? hn::Max(a, b) : hn::Min(a, b); }
};
template <ReduceOp kOp>
struct SumTotal {
  V sum;

  static HWY_INLINE SumTotal none() { return {identity<kOp>()}; }
  HWY_INLINE void add(V x, V shift) { sum = step<kOp>(sum, x, shift); }
  HWY_INLINE void addFirst(hn::Mask<D> first, V x, V shift) {
    sum = hn::IfThenElse(first, step<kOp>(sum, x, shift), sum);
  }
  HWY_INLINE void join(const SumTotal &other) { sum = hn::Add(sum, other.sum); }
  HWY_INLINE float result() const { return ofLanes<kOp>(sum); }
};
template <ReduceOp kOp>
using RowTotal = std::conditional_t<kOp == ReduceOp::kMax || kOp == ReduceOp::kMin, ExtremeTotal<kOp>, SumTotal<kOp>>;

// Forces a vector into a register. gcc would read unaligned memory again for each use.
HWY_INLINE V loaded(const float *x) {
  V v = hn::LoadU(D(), x);
#if HWY_COMPILER_GCC_ACTUAL && HWY_ARCH_X86
  asm("" : "+v"(v.raw));
#endif
  return v;
}

template <ReduceOp kOp>
float rowOf(const float *x, int64_t count, float shiftOfRow) {
  const D d;
  const V shift = hn::Set(d, shiftOfRow);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = RowTotal<kOp>::none(), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a.add(loaded(x + i), shift);
    b.add(loaded(x + i + lanes), shift);
    c.add(loaded(x + i + 2 * lanes), shift);
    e.add(loaded(x + i + 3 * lanes), shift);
  }
  for (; i + lanes <= count; i += lanes) a.add(hn::LoadU(d, x + i), shift);
  if (i < count) {
    const FirstLanes tail(count - i);
    b.addFirst(tail.mask, tail.load(x + i), shift);
  }
  a.join(b);
  c.join(e);
  a.join(c);
  return a.result();
}

// Both extremes of a row; detects NaN like ExtremeTotal.
struct BothTotals {
  using Least = ExtremeTotal<ReduceOp::kMin>;
  Least least;
  V greatest;

  static HWY_INLINE BothTotals none() { return {Least::none(), identity<ReduceOp::kMax>()}; }
  HWY_INLINE void add(V x) {
    least.add(x, x);
    greatest = hn::Max(greatest, x);
  }
  HWY_INLINE void addFirst(hn::Mask<D> first, V x) {
    least.addFirst(first, x, x);
    greatest = hn::Max(greatest, hn::IfThenElse(first, x, identity<ReduceOp::kMax>()));
  }
  HWY_INLINE void join(const BothTotals &other) {
    least.join(other.least);
    greatest = hn::Max(greatest, other.greatest);
  }
  HWY_INLINE RowExtremes result() const {
    const float smallest = least.result();
    return {smallest, std::isnan(smallest) ? smallest : ofLanes<ReduceOp::kMax>(greatest)};
  }
};
RowExtremes rowExtremes(const float *x, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  BothTotals a = BothTotals::none(), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a.add(loaded(x + i));
    b.add(loaded(x + i + lanes));
  }
  for (; i < count; i += lanes) {
    const FirstLanes tail(std::min(lanes, count - i));
    a.addFirst(tail.mask, tail.load(x + i));
  }
  a.join(b);
  return a.result();
}

// The shifts of columns, if the operation reads them.
template <ReduceOp kOp, class Lanes>
HWY_INLINE V shiftsOf(Lanes lanes, const float *shift) {
  return kOp == ReduceOp::kSumExp || kOp == ReduceOp::kSumDistance ? lanes.load(shift) : hn::Zero(D());
}

template <ReduceOp kOp, class Lanes>
HWY_INLINE void columnVector(Lanes lanes, const float *x, int64_t stride, int64_t rows, float *out,
                             const float *shifts) {
  constexpr int64_t kBlock = 128;
  const V shift = shiftsOf<kOp>(lanes, shifts);
  V total = identity<kOp>();
  for (int64_t r = 0; r < rows;) {
    V part = identity<kOp>();
    for (const int64_t end = std::min(rows, r + kBlock); r < end; ++r)
      part = step<kOp>(part, lanes.load(x + r * stride), shift);
    total = combine<kOp>(total, part);
  }
  lanes.store(total, out);
}

// As columnVector(), for two neighbouring vectors at a time, which hides the latency of the chain.
template <ReduceOp kOp>
HWY_INLINE void columnPair(const float *x, int64_t stride, int64_t rows, float *out, const float *shifts) {
  constexpr int64_t kBlock = 128;
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V shiftA = shiftsOf<kOp>(lanes::AllLanes(), shifts), shiftB = shiftsOf<kOp>(lanes::AllLanes(), shifts + lanes);
  V first = identity<kOp>(), second = first;
  for (int64_t r = 0; r < rows;) {
    V a = identity<kOp>(), b = a;
    for (const int64_t end = std::min(rows, r + kBlock); r < end; ++r) {
      a = step<kOp>(a, hn::LoadU(d, x + r * stride), shiftA);
      b = step<kOp>(b, hn::LoadU(d, x + r * stride + lanes), shiftB);
    }
    first = combine<kOp>(first, a);
    second = combine<kOp>(second, b);
  }
  hn::StoreU(first, d, out);
  hn::StoreU(second, d, out + lanes);
}

// As columnVector(), for whole vectors of many columns.
template <ReduceOp kOp>
void wideColumns(const float *x, int64_t stride, int64_t rows, int64_t columns, float *out, const float *shifts) {
  constexpr int64_t kBlock = 128, kGroup = 4, kMostColumns = 1024;
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float parts[kMostColumns];
  for (int64_t first = 0; first < columns; first += kMostColumns) {
    const int64_t count = std::min(kMostColumns, columns - first);
    for (int64_t r = 0; r < rows; r += kBlock) {
      const int64_t end = std::min(rows, r + kBlock), groups = r + (end - r) / kGroup * kGroup;
      for (int64_t c = 0; c < count; c += lanes) hn::Store(identity<kOp>(), d, parts + c);
      auto addRows = [&](int64_t row, auto n) {
        const float *from = x + row * stride + first;
        for (int64_t c = 0; c < count; c += lanes) {
          const V shift = shiftsOf<kOp>(lanes::AllLanes(), shifts + first + c);
          V part = hn::Load(d, parts + c);
          for (int64_t i = 0; i < n; ++i) part = step<kOp>(part, hn::LoadU(d, from + i * stride + c), shift);
          hn::Store(part, d, parts + c);
        }
      };
      for (int64_t row = r; row < groups; row += kGroup) addRows(row, std::integral_constant<int64_t, kGroup>());
      for (int64_t row = groups; row < end; ++row) addRows(row, std::integral_constant<int64_t, 1>());
      for (int64_t c = 0; c < count; c += lanes) {
        const V total = r == 0 ? identity<kOp>() : hn::LoadU(d, out + first + c);
        hn::StoreU(combine<kOp>(total, hn::Load(d, parts + c)), d, out + first + c);
      }
    }
  }
}

template <ReduceOp kOp>
void columnsOf(const float *x, int64_t stride, int64_t rows, int64_t columns, float *out, const float *shifts) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  constexpr int64_t kWide = 8;  // vectors
  int64_t c = columns < kWide * lanes || rows == 0 ? 0 : columns / lanes * lanes;
  if (c > 0) wideColumns<kOp>(x, stride, rows, c, out, shifts);
  for (; c + 2 * lanes <= columns; c += 2 * lanes) columnPair<kOp>(x + c, stride, rows, out + c, shifts + c);
  for (; c + lanes <= columns; c += lanes)
    columnVector<kOp>(lanes::AllLanes(), x + c, stride, rows, out + c, shifts + c);
  if (c < columns) columnVector<kOp>(FirstLanes(columns - c), x + c, stride, rows, out + c, shifts + c);
}

// ---- in double

using DD = hn::ScalableTag<double>;
struct Doubles {  // totals of one vector's columns
  hn::Vec<DD> low, high;
};
template <DoubleReduceOp kOp>
HWY_INLINE Doubles doubleIdentity() {
  const auto v = hn::Set(DD(), kOp == DoubleReduceOp::kProduct ? 1.0 : 0.0);
  return {v, v};
}
template <DoubleReduceOp kOp>
HWY_INLINE hn::Vec<DD> combine(hn::Vec<DD> a, hn::Vec<DD> b) {
  return kOp == DoubleReduceOp::kProduct ? hn::Mul(a, b) : hn::Add(a, b);
}
template <DoubleReduceOp kOp>
HWY_INLINE Doubles step(Doubles total, V x) {
  const hn::Half<D> half;
  return {combine<kOp>(total.low, hn::PromoteTo(DD(), hn::LowerHalf(half, x))),
          combine<kOp>(total.high, hn::PromoteTo(DD(), hn::UpperHalf(half, x)))};
}
template <DoubleReduceOp kOp>
HWY_INLINE Doubles step(Doubles total, const float *x) {
  const hn::Half<D> half;
  return {combine<kOp>(total.low, hn::PromoteTo(DD(), hn::LoadU(half, x))),
          combine<kOp>(total.high, hn::PromoteTo(DD(), hn::LoadU(half, x + hn::Lanes(half))))};
}

template <DoubleReduceOp kOp>
double doubleRowOf(const float *x, int64_t count) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count < lanes) {
    double total = kOp == DoubleReduceOp::kProduct ? 1.0 : 0.0;
    for (int64_t i = 0; i < count; ++i) total = kOp == DoubleReduceOp::kProduct ? total * x[i] : total + x[i];
    return total;
  }
  Doubles a = doubleIdentity<kOp>(), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = step<kOp>(a, x + i);
    b = step<kOp>(b, x + i + lanes);
  }
  for (; i < count; i += lanes) {
    const FirstLanes tail(std::min(lanes, count - i));
    a = step<kOp>(
        a, hn::IfThenElse(tail.mask, tail.load(x + i), hn::Set(d, kOp == DoubleReduceOp::kProduct ? 1.0f : 0.0f)));
  }
  HWY_ALIGN double parts[hn::MaxLanes(DD())];
  hn::Store(combine<kOp>(combine<kOp>(a.low, a.high), combine<kOp>(b.low, b.high)), DD(), parts);
  for (int64_t width = lanes / 4; width > 0; width /= 2)
    for (int64_t k = 0; k < width; ++k)
      parts[k] = kOp == DoubleReduceOp::kProduct ? parts[k] * parts[k + width] : parts[k] + parts[k + width];
  return parts[0];
}

template <DoubleReduceOp kOp, class Lanes>
HWY_INLINE void doubleColumnVector(Lanes lanes, const float *x, int64_t stride, int64_t rows, int64_t columns,
                                   double *out) {
  Doubles totals = doubleIdentity<kOp>();
  for (int64_t r = 0; r < rows; ++r) totals = step<kOp>(totals, lanes.load(x + r * stride));
  HWY_ALIGN double whole[2 * hn::MaxLanes(DD())];
  hn::Store(totals.low, DD(), whole);
  hn::Store(totals.high, DD(), whole + hn::Lanes(DD()));
  std::copy_n(whole, columns, out);
}
template <DoubleReduceOp kOp>
void doubleColumnsOf(const float *x, int64_t stride, int64_t rows, int64_t columns, double *out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes)
    doubleColumnVector<kOp>(lanes::AllLanes(), x + c, stride, rows, lanes, out + c);
  if (c < columns) doubleColumnVector<kOp>(FirstLanes(columns - c), x + c, stride, rows, columns - c, out + c);
}

// ---- dispatch

// Calls f(c), where c() == op is a compile-time constant.
template <class F>
HWY_INLINE auto forOp(ReduceOp op, F &&f) {
  switch (op) {
    case ReduceOp::kSum:
      return f(std::integral_constant<ReduceOp, ReduceOp::kSum>());
    case ReduceOp::kSumSquare:
      return f(std::integral_constant<ReduceOp, ReduceOp::kSumSquare>());
    case ReduceOp::kSumAbs:
      return f(std::integral_constant<ReduceOp, ReduceOp::kSumAbs>());
    case ReduceOp::kSumExp:
      return f(std::integral_constant<ReduceOp, ReduceOp::kSumExp>());
    case ReduceOp::kSumDistance:
      return f(std::integral_constant<ReduceOp, ReduceOp::kSumDistance>());
    case ReduceOp::kMax:
      return f(std::integral_constant<ReduceOp, ReduceOp::kMax>());
    case ReduceOp::kMin:
      break;
  }
  return f(std::integral_constant<ReduceOp, ReduceOp::kMin>());
}
template <class F>
HWY_INLINE auto forOp(DoubleReduceOp op, F &&f) {
  return op == DoubleReduceOp::kProduct ? f(std::integral_constant<DoubleReduceOp, DoubleReduceOp::kProduct>())
                                        : f(std::integral_constant<DoubleReduceOp, DoubleReduceOp::kSum>());
}

float rowResult(ReduceOp op, const float *x, int64_t count, float shift) {
  return forOp(op, [&](auto constant) { return rowOf<constant()>(x, count, shift); });
}
void rowResults(ReduceOp op, const float *x, int64_t rows, int64_t count, float *out) {
  forOp(op, [&](auto constant) {
    for (int64_t r = 0; r < rows; ++r) out[r] = rowOf<constant()>(x + r * count, count, 0);
  });
}
void columnResults(ReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns, float *out,
                   const float *shift) {
  forOp(op, [&](auto constant) { columnsOf<constant()>(x, stride, rows, columns, out, shift); });
}
double doubleRowResult(DoubleReduceOp op, const float *x, int64_t count) {
  return forOp(op, [&](auto constant) { return doubleRowOf<constant()>(x, count); });
}
void doubleRowResults(DoubleReduceOp op, const float *x, int64_t rows, int64_t count, double *out) {
  forOp(op, [&](auto constant) {
    for (int64_t r = 0; r < rows; ++r) out[r] = doubleRowOf<constant()>(x + r * count, count);
  });
}
void doubleColumnResults(DoubleReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns,
                         double *out) {
  forOp(op, [&](auto constant) { doubleColumnsOf<constant()>(x, stride, rows, columns, out); });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(rowResult);
HWY_EXPORT(rowResults);
HWY_EXPORT(rowExtremes);
HWY_EXPORT(columnResults);
HWY_EXPORT(doubleRowResult);
HWY_EXPORT(doubleRowResults);
HWY_EXPORT(doubleColumnResults);

float reduceIdentity(ReduceOp op) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return op == ReduceOp::kMax ? -kInfinity : op == ReduceOp::kMin ? kInfinity : 0.0f;
}
double reduceIdentity(DoubleReduceOp op) { return op == DoubleReduceOp::kProduct ? 1.0 : 0.0; }
float reduceCombine(ReduceOp op, float a, float b) {
  if (op == ReduceOp::kMax) return std::isnan(a) || a > b ? a : b;
  if (op == ReduceOp::kMin) return std::isnan(a) || a < b ? a : b;
  return a + b;
}
double reduceCombine(DoubleReduceOp op, double a, double b) { return op == DoubleReduceOp::kProduct ? a * b : a + b; }
float reduceRow(ReduceOp op, const float *x, int64_t count, float shift) noexcept {
  return HWY_DYNAMIC_DISPATCH(rowResult)(op, x, count, shift);
}
double reduceRow(DoubleReduceOp op, const float *x, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(doubleRowResult)(op, x, count);
}
void reduceRows(ReduceOp op, const float *x, int64_t rows, int64_t count, float *out) noexcept {
  HWY_DYNAMIC_DISPATCH(rowResults)(op, x, rows, count, out);
}
void reduceRows(DoubleReduceOp op, const float *x, int64_t rows, int64_t count, double *out) noexcept {
  HWY_DYNAMIC_DISPATCH(doubleRowResults)(op, x, rows, count, out);
}
RowExtremes reduceRowExtremes(const float *x, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(rowExtremes)(x, count);
}
void reduceColumns(ReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns, float *out,
                   const float *shift) noexcept {
  HWY_DYNAMIC_DISPATCH(columnResults)(op, x, stride, rows, columns, out, shift ? shift : x);
}
void reduceColumns(DoubleReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns,
                   double *out) noexcept {
  HWY_DYNAMIC_DISPATCH(doubleColumnResults)(op, x, stride, rows, columns, out);
}
}  // namespace popart::cpu
#endif
