// Pooling windows, compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/windows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/vector/windows.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
#include "backends/cpu/kernels/pool_maximum-inl.hpp"
// clang-format on
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

template <class F>
HWY_INLINE void forChannels(int64_t channels, F &&f) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) f(AllLanes(), c);
  if (c < channels) f(FirstLanes(channels - c), c);
}

template <class Combine, class Lanes>
HWY_INLINE V maximumBy(Lanes lanes, const float *x, Taps taps, V &sum) {
  V best = lanes.load(x + taps[0]);
  sum = best;
  for (size_t t = 1; t < taps.size(); ++t) {
    const V v = lanes.load(x + taps[t]);
    best = Combine::of(best, v);
    sum = hn::Add(sum, v);
  }
  return best;
}

void maximumOf(const float *x, Taps taps, int64_t channels, float *y) {
  forChannels(channels, [&](auto lanes, int64_t c) {
    if (taps.empty()) return lanes.store(hn::Set(D(), -std::numeric_limits<float>::infinity()), y + c);
    V sum;  // NaN if an element may be NaN
    V best = maximumBy<pools::NumberMaximum>(lanes, x + c, taps, sum);
    if (HWY_UNLIKELY(!hn::AllFalse(D(), hn::IsNaN(sum)))) best = maximumBy<pools::Maximum>(lanes, x + c, taps, sum);
    lanes.store(best, y + c);
  });
}

// The number of the tap with the first maximum, or the first NaN.
template <class Lanes>
HWY_INLINE V winnerOf(Lanes lanes, const float *x, Taps taps) {
  const D d;
  V best = lanes.load(x + taps[0]), winner = hn::Zero(d);
  for (size_t t = 1; t < taps.size(); ++t) {
    const V v = lanes.load(x + taps[t]);
    const auto over = pools::replaces(v, best);
    best = hn::IfThenElse(over, v, best);
    winner = hn::IfThenElse(over, hn::Set(d, static_cast<float>(t)), winner);
  }
  return winner;
}

void spreadToMaximumOf(const float *x, Taps taps, int64_t channels, const float *g, float *dx) {
  if (taps.empty()) return;
  const D d;
  forChannels(channels, [&](auto lanes, int64_t c) {
    V sum;  // NaN if an element may be NaN
    const V best = maximumBy<pools::NumberMaximum>(lanes, x + c, taps, sum), gradient = lanes.load(g + c);
    const auto add = [&](size_t t, auto isWinner) {
      float *to = dx + taps[t] + c;
      lanes.store(hn::Add(lanes.load(to), hn::IfThenElseZero(isWinner, gradient)), to);
    };
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(sum)))) {
      const V winner = winnerOf(lanes, x + c, taps);
      for (size_t t = 0; t < taps.size(); ++t) add(t, hn::Eq(winner, hn::Set(d, static_cast<float>(t))));
      return;
    }
    auto isFound = hn::FirstN(d, 0);
    for (size_t t = 0; t < taps.size(); ++t) {
      const auto isBest = hn::Eq(lanes.load(x + taps[t] + c), best);
      add(t, hn::AndNot(isFound, isBest));
      isFound = hn::Or(isFound, isBest);
    }
  });
}

void sumOf(const float *x, Taps taps, int64_t channels, float scale, float *y) {
  const D d;
  forChannels(channels, [&](auto lanes, int64_t c) {
    V sum = hn::Zero(d);
    for (int64_t tap : taps) sum = hn::Add(sum, lanes.load(x + tap + c));
    lanes.store(hn::Mul(sum, hn::Set(d, scale)), y + c);
  });
}

void spreadToTapsOf(Taps taps, int64_t channels, const float *g, float scale, float *dx) {
  const D d;
  forChannels(channels, [&](auto lanes, int64_t c) {
    const V share = hn::Mul(lanes.load(g + c), hn::Set(d, scale));
    for (int64_t tap : taps) lanes.store(hn::Add(lanes.load(dx + tap + c), share), dx + tap + c);
  });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(maximumOf);
HWY_EXPORT(spreadToMaximumOf);
HWY_EXPORT(sumOf);
HWY_EXPORT(spreadToTapsOf);

void maximumOfTaps(const float *x, Taps taps, int64_t channels, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(maximumOf)(x, taps, channels, y);
}
void spreadToMaximum(const float *x, Taps taps, int64_t channels, const float *g, float *dx) noexcept {
  HWY_DYNAMIC_DISPATCH(spreadToMaximumOf)(x, taps, channels, g, dx);
}
void sumOfTaps(const float *x, Taps taps, int64_t channels, float scale, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(sumOf)(x, taps, channels, scale, y);
}
void spreadToTaps(Taps taps, int64_t channels, const float *g, float scale, float *dx) noexcept {
  HWY_DYNAMIC_DISPATCH(spreadToTapsOf)(taps, channels, g, scale, dx);
}
}  // namespace popart::cpu
#endif
