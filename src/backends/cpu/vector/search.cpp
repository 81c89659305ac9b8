// All lanes take the steps of one search, without branches: lanes that have ended keep their position. A few vectors of
// boundaries are kept in registers, more are read from memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/search.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/search.hpp"
// clang-format on
#include <algorithm>
#include <bit>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kMostTables = 4;

// Boundaries in kTables vectors.
template <int64_t kTables>
struct InRegisters {
  V tables[kTables];
  InRegisters(const float *boundaries, int64_t count) {
    HWY_ALIGN float whole[kTables * kLanes] = {};
    std::copy_n(boundaries, count, whole);
    for (int64_t t = 0; t < kTables; ++t) tables[t] = hn::Load(D(), whole + t * kLanes);
  }
  HWY_INLINE V operator()(VI at) const {
    const D d;
    const DI di;
    const auto lane = hn::IndicesFromVec(d, hn::And(at, hn::Set(di, static_cast<int32_t>(kLanes - 1))));
    V found = hn::TableLookupLanes(tables[0], lane);
    for (int64_t t = 1; t < kTables; ++t) {
      const auto isBeyond = hn::Gt(at, hn::Set(di, static_cast<int32_t>(t * kLanes - 1)));
      found = hn::IfThenElse(hn::RebindMask(d, isBeyond), hn::TableLookupLanes(tables[t], lane), found);
    }
    return found;
  }
};
struct InMemory {
  const float *boundaries;
  HWY_INLINE V operator()(VI at) const { return hn::GatherIndex(D(), boundaries, at); }
};

// Two independent vectors at a time.
template <Boundary kKind, class Read>
int64_t searchAll(const float *x, int64_t length, const Read &read, int64_t boundaryCount, int32_t *y) {
  constexpr int64_t kVectors = 2;
  const D d;
  const DI di;
  const VI zero = hn::Zero(di), one = hn::Set(di, 1), last = hn::Set(di, static_cast<int32_t>(boundaryCount - 1));
  const int steps = std::bit_width(static_cast<uint64_t>(boundaryCount));
  int64_t i = 0;
  for (; i + kVectors * kLanes <= length; i += kVectors * kLanes) {
    V wanted[kVectors];
    VI low[kVectors], count[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      wanted[v] = hn::LoadU(d, x + i + v * kLanes);
      low[v] = zero, count[v] = hn::Set(di, static_cast<int32_t>(boundaryCount));
    }
    for (int step = 0; step < steps; ++step)
      for (int64_t v = 0; v < kVectors; ++v) {
        const VI half = hn::ShiftRight<1>(count[v]), middle = hn::Add(low[v], half);
        const V boundary = read(hn::Min(middle, last));
        const auto reaches = kKind == Boundary::kAbove ? hn::Gt(boundary, wanted[v]) : hn::Ge(boundary, wanted[v]);
        const auto stops = hn::Or(hn::RebindMask(di, reaches), hn::Eq(count[v], zero));
        low[v] = hn::IfThenElse(stops, low[v], hn::Add(middle, one));
        count[v] = hn::IfThenElse(stops, half, hn::Sub(hn::Sub(count[v], half), one));
      }
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(low[v], di, y + i + v * kLanes);
  }
  return i;
}

// Searches for whole vectors; returns the number of elements of x that it processed.
template <Boundary kKind>
int64_t searchVectors(const float *x, int64_t length, const float *boundaries, int64_t count, int32_t *y) {
  if (count == 0) return 0;
  if (count <= kLanes) return searchAll<kKind>(x, length, InRegisters<1>(boundaries, count), count, y);
  if (count <= 2 * kLanes) return searchAll<kKind>(x, length, InRegisters<2>(boundaries, count), count, y);
  if (count <= kMostTables * kLanes)
    return searchAll<kKind>(x, length, InRegisters<kMostTables>(boundaries, count), count, y);
  return searchAll<kKind>(x, length, InMemory{boundaries}, count, y);
}

int64_t searchOf(Boundary kind, const float *x, int64_t length, const float *boundaries, int64_t count, int32_t *y) {
  return kind == Boundary::kAbove ? searchVectors<Boundary::kAbove>(x, length, boundaries, count, y)
                                  : searchVectors<Boundary::kNotBelow>(x, length, boundaries, count, y);
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(searchOf);

void firstBoundaries(Boundary kind, const float *x, int64_t length, const float *boundaries, int64_t boundaryCount,
                     int32_t *y) noexcept {
  for (int64_t i = HWY_DYNAMIC_DISPATCH(searchOf)(kind, x, length, boundaries, boundaryCount, y); i < length; ++i)
    y[i] = static_cast<int32_t>(firstBoundary(kind, x[i], boundaries, boundaryCount));
}
}  // namespace popart::cpu
#endif
