// Rows: four vectors of partial results, then a tree over their lanes. Columns: blocks of rows chained in registers,
// block results chained in turn, which keeps the rounding error of long sums small.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/reduce_ops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/vector/reduce_ops.hpp"
// clang-format on
#include <algorithm>
#include <cmath>
#include <limits>

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
HWY_INLINE V step(V total, V x) {
  if constexpr (kOp == ReduceOp::kSumSquare) return hn::MulAdd(x, x, total);
  if constexpr (kOp == ReduceOp::kSumAbs) return hn::Add(total, hn::Abs(x));
  return combine<kOp>(total, x);
}

template <ReduceOp kOp>
float rowOf(const float *x, int64_t count) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V a = identity<kOp>(), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = step<kOp>(a, hn::LoadU(d, x + i));
    b = step<kOp>(b, hn::LoadU(d, x + i + lanes));
    c = step<kOp>(c, hn::LoadU(d, x + i + 2 * lanes));
    e = step<kOp>(e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) a = step<kOp>(a, hn::LoadU(d, x + i));
  if (i < count) {
    const FirstLanes tail(count - i);
    b = hn::IfThenElse(tail.mask, step<kOp>(b, tail.load(x + i)), b);
  }
  HWY_ALIGN float parts[hn::MaxLanes(d)];
  hn::Store(combine<kOp>(combine<kOp>(a, b), combine<kOp>(c, e)), d, parts);
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t k = 0; k < width; ++k) parts[k] = reduceCombine(kOp, parts[k], parts[k + width]);
  return parts[0];
}

template <ReduceOp kOp, class Lanes>
HWY_INLINE void columnVector(Lanes lanes, const float *x, int64_t stride, int64_t rows, float *out) {
  constexpr int64_t kBlock = 128;
  V total = identity<kOp>();
  for (int64_t r = 0; r < rows;) {
    V part = identity<kOp>();
    for (const int64_t end = std::min(rows, r + kBlock); r < end; ++r)
      part = step<kOp>(part, lanes.load(x + r * stride));
    total = combine<kOp>(total, part);
  }
  lanes.store(total, out);
}

// As columnVector for two neighbouring vectors at a time, which hides the latency of the chain.
template <ReduceOp kOp>
HWY_INLINE void columnPair(const float *x, int64_t stride, int64_t rows, float *out) {
  constexpr int64_t kBlock = 128;
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V first = identity<kOp>(), second = first;
  for (int64_t r = 0; r < rows;) {
    V a = identity<kOp>(), b = a;
    for (const int64_t end = std::min(rows, r + kBlock); r < end; ++r) {
      a = step<kOp>(a, hn::LoadU(d, x + r * stride));
      b = step<kOp>(b, hn::LoadU(d, x + r * stride + lanes));
    }
    first = combine<kOp>(first, a);
    second = combine<kOp>(second, b);
  }
  hn::StoreU(first, d, out);
  hn::StoreU(second, d, out + lanes);
}

template <ReduceOp kOp>
void columnsOf(const float *x, int64_t stride, int64_t rows, int64_t columns, float *out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t c = 0;
  for (; c + 2 * lanes <= columns; c += 2 * lanes) columnPair<kOp>(x + c, stride, rows, out + c);
  for (; c + lanes <= columns; c += lanes) columnVector<kOp>(lanes::AllLanes(), x + c, stride, rows, out + c);
  if (c < columns) columnVector<kOp>(FirstLanes(columns - c), x + c, stride, rows, out + c);
}

float rowResult(ReduceOp op, const float *x, int64_t count) {
  switch (op) {
    case ReduceOp::kSum:
      return rowOf<ReduceOp::kSum>(x, count);
    case ReduceOp::kSumSquare:
      return rowOf<ReduceOp::kSumSquare>(x, count);
    case ReduceOp::kSumAbs:
      return rowOf<ReduceOp::kSumAbs>(x, count);
    case ReduceOp::kMax:
      return rowOf<ReduceOp::kMax>(x, count);
    case ReduceOp::kMin:
      return rowOf<ReduceOp::kMin>(x, count);
  }
  return 0;
}
void columnResults(ReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns, float *out) {
  switch (op) {
    case ReduceOp::kSum:
      return columnsOf<ReduceOp::kSum>(x, stride, rows, columns, out);
    case ReduceOp::kSumSquare:
      return columnsOf<ReduceOp::kSumSquare>(x, stride, rows, columns, out);
    case ReduceOp::kSumAbs:
      return columnsOf<ReduceOp::kSumAbs>(x, stride, rows, columns, out);
    case ReduceOp::kMax:
      return columnsOf<ReduceOp::kMax>(x, stride, rows, columns, out);
    case ReduceOp::kMin:
      return columnsOf<ReduceOp::kMin>(x, stride, rows, columns, out);
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(rowResult);
HWY_EXPORT(columnResults);

float reduceIdentity(ReduceOp op) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return op == ReduceOp::kMax ? -kInfinity : op == ReduceOp::kMin ? kInfinity : 0.0f;
}
float reduceCombine(ReduceOp op, float a, float b) {
  if (op == ReduceOp::kMax) return std::isnan(a) || a > b ? a : b;
  if (op == ReduceOp::kMin) return std::isnan(a) || a < b ? a : b;
  return a + b;
}
float reduceRow(ReduceOp op, const float *x, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(rowResult)(op, x, count);
}
void reduceColumns(ReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns, float *out) noexcept {
  HWY_DYNAMIC_DISPATCH(columnResults)(op, x, stride, rows, columns, out);
}
}  // namespace popart::cpu
#endif
