// Permutations of channels, compiled once per instruction set by Highway, see lane_spread.hpp. A vector of results is
// looked up in the vectors of source channels, one after the other. If groups have as many input channels as output
// channels and fill whole vectors, there is only one source vector.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/lane_spread.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/lane_spread.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/kernels/pack.hpp"
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

template <class Lanes>
void copyVector(Lanes lanes, const SpreadRows &rows) {
  for (int64_t i = 0; i < rows.count; ++i)
    hn::StoreU(lanes.load(rows.from + i * rows.fromStride), D(), rows.to + i * rows.toStride);
}

// Fills the lanes whose channel is in source vector `source`, to which `rows.from` points.
template <class Lanes>
void lookUpVector(Lanes lanes, const int32_t *indices, int64_t source, const SpreadRows &rows) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto index = hn::LoadU(di, indices), within = hn::Set(di, static_cast<int32_t>(kLanes - 1));
  const auto table = hn::IndicesFromVec(d, hn::And(index, within));
  if (source == 0) {
    for (int64_t i = 0; i < rows.count; ++i)
      hn::StoreU(hn::TableLookupLanes(lanes.load(rows.from + i * rows.fromStride), table), d,
                 rows.to + i * rows.toStride);
    return;
  }
  const auto first = hn::Set(di, static_cast<int32_t>(source * kLanes));
  const auto isHere = hn::RebindMask(d, hn::Eq(hn::AndNot(within, index), first));
  for (int64_t i = 0; i < rows.count; ++i) {
    float *to = rows.to + i * rows.toStride;
    const V found = hn::TableLookupLanes(lanes.load(rows.from + i * rows.fromStride), table);
    hn::StoreU(hn::IfThenElse(isHere, found, hn::LoadU(d, to)), d, to);
  }
}

// `available`: number of channels of a pixel from rows.from on.
void spreadOf(const int32_t *indices, int64_t terms, int64_t available, const SpreadRows &rows) {
  for (int64_t term = 0; term < terms; ++term, indices += kLanes) {
    const int64_t last = *std::max_element(indices, indices + kLanes);
    for (int64_t source = 0; source <= last / kLanes; ++source) {
      SpreadRows part = rows;
      part.from += source * kLanes, part.to += term * 2 * kLanes;
      const int64_t left = available - source * kLanes;
      if (left >= kLanes)
        lookUpVector(AllLanes(), indices, source, part);
      else
        lookUpVector(FirstLanes(left), indices, source, part);
    }
  }
}

void copyOf(int64_t available, const SpreadRows &rows) {
  if (available >= kLanes) return copyVector(AllLanes(), rows);
  copyVector(FirstLanes(available), rows);
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(spreadOf);
HWY_EXPORT(copyOf);
LaneSpread::LaneSpread(int64_t groups, int64_t inGroup, int64_t outGroup)
    : channels_(groups * inGroup),
      outGroup_(outGroup),
      outChannels_(groups * outGroup),
      terms_(inGroup),
      lanes_(panelWidth() / 2) {
  for (int64_t first = 0; first < outChannels_; first += lanes_)
    for (int64_t term = 0; term < terms_; ++term)
      for (int64_t lane = 0; lane < lanes_; ++lane) {
        const int64_t channel = std::min(first + lane, outChannels_ - 1);
        indices_.push_back(static_cast<int32_t>((channel / outGroup - first / outGroup) * inGroup + term));
      }
}

void LaneSpread::run(int64_t panel, const float *pixels, ptrdiff_t pixelStride, int64_t count,
                     float *spread) const noexcept {
  const int64_t end = std::min(outChannels_, (panel + 1) * 2 * lanes_);
  for (int64_t first = panel * 2 * lanes_; first < end; first += lanes_, spread += lanes_) {
    const int64_t channel = first / outGroup_ * terms_;
    const SpreadRows rows{pixels + channel, pixelStride, count, spread, pixelFloats()};
    if (terms_ == 1 && outGroup_ == 1)
      HWY_DYNAMIC_DISPATCH(copyOf)(channels_ - channel, rows);
    else
      HWY_DYNAMIC_DISPATCH(spreadOf)(indices_.data() + first * terms_, terms_, channels_ - channel, rows);
  }
}
}  // namespace popart::cpu
#endif
