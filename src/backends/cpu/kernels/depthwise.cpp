// Depthwise inner loops, compiled once per instruction set by Highway. Four vectors of channels run side by side to
// hide the latency of the multiply-adds; the tail of the channels goes vector by vector, the last one masked.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/depthwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/depthwise.hpp"
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
constexpr int64_t kWidth = 2 * kLanes;

// One vector of channels starting at c, all in one panel.
template <class Lanes>
HWY_INLINE void pixelVector(Lanes lanes, const float *source, const TapTerm *terms, int64_t count, const float *packed,
                            int64_t taps, int64_t c, float *out) {
  const float *w = packed + c / kWidth * taps * kWidth + c % kWidth;
  V sum = hn::Zero(D());
  for (int64_t i = 0; i < count; ++i) {
    sum = hn::MulAdd(lanes.load(source + terms[i].source + c), hn::LoadU(D(), w + terms[i].tap * kWidth), sum);
  }
  lanes.store(sum, out + c);
}

void pixelOf(const float *source, const TapTerm *terms, int64_t count, const float *packed, int64_t taps,
             int64_t channels, float *out) {
  const D d;
  int64_t c = 0;
  for (; c + 2 * kWidth <= channels; c += 2 * kWidth) {
    const float *w0 = packed + c * taps, *w1 = w0 + taps * kWidth;
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t i = 0; i < count; ++i) {
      const float *x = source + terms[i].source + c;
      const int64_t at = terms[i].tap * kWidth;
      s0 = hn::MulAdd(hn::LoadU(d, x), hn::LoadU(d, w0 + at), s0);
      s1 = hn::MulAdd(hn::LoadU(d, x + kLanes), hn::LoadU(d, w0 + at + kLanes), s1);
      s2 = hn::MulAdd(hn::LoadU(d, x + kWidth), hn::LoadU(d, w1 + at), s2);
      s3 = hn::MulAdd(hn::LoadU(d, x + kWidth + kLanes), hn::LoadU(d, w1 + at + kLanes), s3);
    }
    hn::StoreU(s0, d, out + c);
    hn::StoreU(s1, d, out + c + kLanes);
    hn::StoreU(s2, d, out + c + kWidth);
    hn::StoreU(s3, d, out + c + kWidth + kLanes);
  }
  for (; c + kLanes <= channels; c += kLanes) pixelVector(AllLanes(), source, terms, count, packed, taps, c, out);
  if (c == channels) return;
  pixelVector(FirstLanes(channels - c), source, terms, count, packed, taps, c, out);
}

void weightSumsOf(const float *x, const float *dy, const PixelTerm *terms, int64_t count, int64_t channels,
                  float *sums) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const FirstLanes lanes(std::min(kLanes, channels - c));
    V sum = lanes.load(sums + c);
    for (int64_t i = 0; i < count; ++i)
      sum = hn::MulAdd(lanes.load(x + terms[i].x + c), lanes.load(dy + terms[i].dy + c), sum);
    lanes.store(sum, sums + c);
  }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(pixelOf);
HWY_EXPORT(weightSumsOf);

void depthwisePixel(const float *source, const TapTerm *terms, int64_t termCount, const float *packed, int64_t taps,
                    int64_t channels, float *out) noexcept {
  HWY_DYNAMIC_DISPATCH(pixelOf)(source, terms, termCount, packed, taps, channels, out);
}

void depthwiseWeightSums(const float *x, const float *dy, const PixelTerm *terms, int64_t termCount, int64_t channels,
                         float *sums) noexcept {
  HWY_DYNAMIC_DISPATCH(weightSumsOf)(x, dy, terms, termCount, channels, sums);
}
}  // namespace popart::cpu
#endif
