// Every vector of floats is two of doubles. Elements that are 0 count as 1 in the products.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/product_ops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/vector/product_ops.hpp"
// clang-format on
#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using H = hn::Half<D>;
using DD = hn::ScalableTag<double>;
using VD = hn::Vec<DD>;
using DI = hn::RebindToSigned<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

HWY_INLINE VD lowerDoubles(V x) { return hn::PromoteTo(DD(), hn::LowerHalf(H(), x)); }
HWY_INLINE VD upperDoubles(V x) { return hn::PromoteTo(DD(), hn::UpperHalf(H(), x)); }

// The products of one vector's lanes.
struct LaneProducts {
  VD low, high, lowestLow, lowestHigh;
  hn::Vec<DI> zeros;

  static HWY_INLINE LaneProducts none() {
    const VD one = hn::Set(DD(), 1.0);
    return {one, one, one, one, hn::Zero(DI())};
  }
  HWY_INLINE void take(V x) {
    const auto isZero = hn::Eq(x, hn::Zero(D()));
    const V factor = hn::IfThenElse(isZero, hn::Set(D(), 1.0f), x);
    zeros = hn::Sub(zeros, hn::VecFromMask(DI(), hn::RebindMask(DI(), isZero)));
    low = hn::Mul(low, lowerDoubles(factor));
    high = hn::Mul(high, upperDoubles(factor));
    lowestLow = hn::Min(lowestLow, hn::Abs(low));
    lowestHigh = hn::Min(lowestHigh, hn::Abs(high));
  }
  // Stores the first `count` lanes.
  HWY_INLINE void store(int64_t count, NonZeroProduct *out) const {
    HWY_ALIGN double product[2 * hn::MaxLanes(DD())], lowest[2 * hn::MaxLanes(DD())];
    HWY_ALIGN int32_t zero[hn::MaxLanes(DI())];
    hn::Store(low, DD(), product);
    hn::Store(high, DD(), product + hn::Lanes(DD()));
    hn::Store(lowestLow, DD(), lowest);
    hn::Store(lowestHigh, DD(), lowest + hn::Lanes(DD()));
    hn::Store(zeros, DI(), zero);
    for (int64_t i = 0; i < count; ++i) out[i] = {product[i], lowest[i], zero[i]};
  }
};

void joinProducts(NonZeroProduct &all, const NonZeroProduct &part) {
  all.product *= part.product;
  all.lowest = std::min({all.lowest, part.lowest, std::abs(all.product)});
  all.zeros += part.zeros;
}

NonZeroProduct nonZeroOfRow(const float *x, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  LaneProducts a = LaneProducts::none(), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a.take(hn::LoadU(D(), x + i));
    b.take(hn::LoadU(D(), x + i + lanes));
  }
  for (; i + lanes <= count; i += lanes) a.take(hn::LoadU(D(), x + i));
  if (i < count) {
    const FirstLanes tail(count - i);
    b.take(hn::IfThenElse(tail.mask, tail.load(x + i), hn::Set(D(), 1.0f)));
  }
  NonZeroProduct all, parts[hn::MaxLanes(D())];
  for (const LaneProducts *products : {&a, &b}) {
    products->store(lanes, parts);
    for (int64_t lane = 0; lane < lanes; ++lane) joinProducts(all, parts[lane]);
  }
  return all;
}

template <class Lanes>
HWY_INLINE void nonZeroOfVector(Lanes lanes, const float *x, int64_t stride, int64_t rows, int64_t columns,
                                NonZeroProduct *out) {
  LaneProducts all = LaneProducts::none();
  for (int64_t r = 0; r < rows; ++r) all.take(lanes.load(x + r * stride));
  all.store(columns, out);
}

void nonZeroOfColumns(const float *x, int64_t stride, int64_t rows, int64_t columns, NonZeroProduct *out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) nonZeroOfVector(AllLanes(), x + c, stride, rows, lanes, out + c);
  if (c < columns) nonZeroOfVector(FirstLanes(columns - c), x + c, stride, rows, columns - c, out + c);
}

struct Quotients {  // for one vector's lanes
  VD low, high;
  V atZero;

  HWY_INLINE V of(V x) const {
    const auto narrow = [](VD v) { return hn::DemoteTo(H(), v); };
    const V quotient = hn::Combine(D(), narrow(hn::Div(high, upperDoubles(x))), narrow(hn::Div(low, lowerDoubles(x))));
    return hn::IfThenElse(hn::Eq(x, hn::Zero(D())), atZero, quotient);
  }
};

void quotientsOfRow(double over, float atZero, const float *x, int64_t count, float *y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const Quotients quotients{hn::Set(DD(), over), hn::Set(DD(), over), hn::Set(D(), atZero)};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(quotients.of(hn::LoadU(D(), x + i)), D(), y + i);
  if (i == count) return;
  const FirstLanes tail(count - i);
  tail.store(quotients.of(tail.load(x + i)), y + i);
}

template <class Lanes>
HWY_INLINE void quotientsOfVector(Lanes lanes, const Quotients &quotients, const float *x, int64_t stride, int64_t rows,
                                  float *y) {
  for (int64_t r = 0; r < rows; ++r) lanes.store(quotients.of(lanes.load(x + r * stride)), y + r * stride);
}

void quotientsOfColumns(const double *over, const float *atZero, const float *x, int64_t stride, int64_t rows,
                        int64_t columns, float *y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  HWY_ALIGN double whole[2 * hn::MaxLanes(DD())] = {};
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t count = std::min(lanes, columns - c);
    const FirstLanes some(count);
    std::copy_n(over + c, count, whole);
    const Quotients quotients{hn::Load(DD(), whole), hn::Load(DD(), whole + hn::Lanes(DD())), some.load(atZero + c)};
    if (count == lanes)
      quotientsOfVector(AllLanes(), quotients, x + c, stride, rows, y + c);
    else
      quotientsOfVector(some, quotients, x + c, stride, rows, y + c);
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(nonZeroOfRow);
HWY_EXPORT(nonZeroOfColumns);
HWY_EXPORT(quotientsOfRow);
HWY_EXPORT(quotientsOfColumns);

NonZeroProduct productOfRow(const float *x, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(nonZeroOfRow)(x, count);
}
void productsOfColumns(const float *x, int64_t stride, int64_t rows, int64_t columns, NonZeroProduct *out) noexcept {
  HWY_DYNAMIC_DISPATCH(nonZeroOfColumns)(x, stride, rows, columns, out);
}
void divideRow(double over, float atZero, const float *x, int64_t count, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(quotientsOfRow)(over, atZero, x, count, y);
}
void divideColumns(const double *over, const float *atZero, const float *x, int64_t stride, int64_t rows,
                   int64_t columns, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(quotientsOfColumns)(over, atZero, x, stride, rows, columns, y);
}
}  // namespace popart::cpu
#endif
