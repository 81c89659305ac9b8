// Response normalisation, compiled once per instruction set by Highway. Terms are stored in a zero-padded scratch row,
// so that a window is `size` shifted loads; s^-beta is exp(-beta log s).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector/lrn.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
#include "backends/cpu/vector/lrn.hpp"
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

template <class F>
HWY_INLINE void forChannels(int64_t channels, F &&f) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) f(AllLanes(), c);
  if (c < channels) f(FirstLanes(channels - c), c);
}

// Sum of `size` neighbours from row[c] on.
template <class Lanes>
HWY_INLINE V windowSum(Lanes lanes, const float *row, int64_t c, int64_t size) {
  V sum = lanes.load(row + c);
  for (int64_t i = 1; i < size; ++i) sum = hn::Add(sum, lanes.load(row + c + i));
  return sum;
}

HWY_INLINE V power(V s, float exponent) {
  const D d;
  return hn::Exp(d, hn::Mul(hn::Set(d, exponent), hn::Log(d, s)));
}

// Writes x² between zeros; windowSum at c is then the sum of c's window.
void writeSquares(const Lrn &lrn, const float *x, float *row) {
  const int64_t before = (lrn.size - 1) / 2;
  std::fill_n(row, before, 0.0f);
  std::fill_n(row + before + lrn.channels, lrn.size - 1 - before, 0.0f);
  forChannels(lrn.channels, [&](auto lanes, int64_t c) {
    const V v = lanes.load(x + c);
    lanes.store(hn::Mul(v, v), row + before + c);
  });
}

template <class Lanes>
HWY_INLINE V scaleAt(const Lrn &lrn, Lanes lanes, const float *row, int64_t c) {
  const D d;
  return hn::MulAdd(windowSum(lanes, row, c, lrn.size), hn::Set(d, lrn.alpha / static_cast<float>(lrn.size)),
                    hn::Set(d, lrn.bias));
}

void pixelOf(const Lrn &lrn, const float *x, float *y, float *scratch) {
  writeSquares(lrn, x, scratch);
  forChannels(lrn.channels, [&](auto lanes, int64_t c) {
    lanes.store(hn::Mul(lanes.load(x + c), power(scaleAt(lrn, lanes, scratch, c), -lrn.beta)), y + c);
  });
}

void gradientPixelOf(const Lrn &lrn, const float *g, const float *x, float *dx, float *scratch) {
  const D d;
  writeSquares(lrn, x, scratch);
  float *terms = scratch + lrn.channels + lrn.size;
  const int64_t before = lrn.size - 1 - (lrn.size - 1) / 2;  // mirrored: the windows that contain c
  std::fill_n(terms, before, 0.0f);
  std::fill_n(terms + before + lrn.channels, lrn.size - 1 - before, 0.0f);
  float *direct = terms + lrn.channels + lrn.size;
  forChannels(lrn.channels, [&](auto lanes, int64_t c) {
    const V s = scaleAt(lrn, lanes, scratch, c), p = hn::Mul(lanes.load(g + c), power(s, -lrn.beta));
    lanes.store(p, direct + c);
    lanes.store(hn::Div(hn::Mul(p, lanes.load(x + c)), s), terms + before + c);
  });
  const V factor = hn::Set(d, 2 * lrn.alpha * lrn.beta / static_cast<float>(lrn.size));
  forChannels(lrn.channels, [&](auto lanes, int64_t c) {
    const V back = hn::Mul(hn::Mul(factor, lanes.load(x + c)), windowSum(lanes, terms, c, lrn.size));
    lanes.store(hn::Sub(lanes.load(direct + c), back), dx + c);
  });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(pixelOf);
HWY_EXPORT(gradientPixelOf);

int64_t lrnScratchFloats(const Lrn &lrn) noexcept { return 3 * (lrn.channels + lrn.size); }
void lrnPixel(const Lrn &lrn, const float *x, float *y, float *scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(pixelOf)(lrn, x, y, scratch);
}
void lrnGradientPixel(const Lrn &lrn, const float *g, const float *x, float *dx, float *scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(gradientPixelOf)(lrn, g, x, dx, scratch);
}
}  // namespace popart::cpu
#endif
