// See half_arrays.hpp. Compiled once per instruction set by Highway: processors have instructions for FLOAT16, and the
// loops on bits (half_bits.hpp) become vectors of each set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/half_arrays.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "base/half_arrays.hpp"
#include "base/half_bits.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace popart::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whole vectors by the instructions, if there are any; the rest by bits.
void widenHalves(const Half *from, int64_t count, float *to) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto *const halves = reinterpret_cast<const hwy::float16_t *>(from);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, halves + i)), d, to + i);
#endif
  for (; i < count; ++i) to[i] = widenHalfBits(from[i].bits());
}
void narrowToHalves(const float *from, int64_t count, Half *to) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  auto *const halves = reinterpret_cast<hwy::float16_t *>(to);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, from + i)), dh, halves + i);
#endif
  for (; i < count; ++i) to[i] = Half::fromBits(narrowToHalfBits(from[i]));
}
void widenBfloats(const BFloat16 *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
void narrowToBfloats(const float *from, int64_t count, BFloat16 *to) {
  for (int64_t i = 0; i < count; ++i) to[i] = BFloat16::fromBits(narrowToBFloat16Bits(from[i]));
}

}  // namespace popart::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart {
HWY_EXPORT(widenHalves);
HWY_EXPORT(narrowToHalves);
HWY_EXPORT(widenBfloats);
HWY_EXPORT(narrowToBfloats);

void widen(const Half *from, int64_t count, float *to) noexcept { HWY_DYNAMIC_DISPATCH(widenHalves)(from, count, to); }
void widen(const BFloat16 *from, int64_t count, float *to) noexcept {
  HWY_DYNAMIC_DISPATCH(widenBfloats)(from, count, to);
}
void narrow(const float *from, int64_t count, Half *to) noexcept {
  HWY_DYNAMIC_DISPATCH(narrowToHalves)(from, count, to);
}
void narrow(const float *from, int64_t count, BFloat16 *to) noexcept {
  HWY_DYNAMIC_DISPATCH(narrowToBfloats)(from, count, to);
}

}  // namespace popart
#endif
