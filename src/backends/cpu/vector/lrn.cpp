// Response normalisation, compiled once per instruction set by Highway. Terms are stored in a zero-padded scratch row,
// so that a window is `size` shifted loads. s^-beta is computed as exp(-beta log s), or from square roots if beta is a
// multiple of a quarter, such as the usual 0.75.
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
#include <cmath>

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

// s^-beta
HWY_INLINE V inversePower(V s, float beta) {
  const D d;
  const float quarters = beta * 4;
  if (quarters < 0 || quarters > 8 || quarters != std::floor(quarters))
    return hn::Exp(d, hn::Mul(hn::Set(d, -beta), hn::Log(d, s)));
  const int count = static_cast<int>(quarters);
  V power = hn::Set(d, 1.0f);
  const V root = hn::Sqrt(s);
  if (count & 2) power = root;
  if (count & 1) power = hn::Mul(power, hn::Sqrt(root));
  for (int i = 0; i < count / 4; ++i) power = hn::Mul(power, s);
  return hn::Div(hn::Set(d, 1.0f), power);
}

// Writes x² between zeros; windowSum at c is then the sum over c's window.
void writeSquares(const Lrn &lrn, const float *x, float *row) {
  const int64_t before = (lrn.size - 1) / 2;
  std::fill_n(row, before, 0.0f);
  std::fill_n(row + before + lrn.channels, lrn.size - 1 - before, 0.0f);
  forChannels(lrn.channels, [&](auto lanes, int64_t c) {
    const V v = lanes.load(x + c);
    lanes.store(hn::Mul(v, v), row + before + c);
  });
}

HWY_INLINE V scaleOf(const Lrn &lrn, V sum) {
  const D d;
  return hn::MulAdd(sum, hn::Set(d, lrn.alpha / static_cast<float>(lrn.size)), hn::Set(d, lrn.bias));
}
template <class Lanes>
HWY_INLINE V scaleAt(const Lrn &lrn, Lanes lanes, const float *row, int64_t c) {
  return scaleOf(lrn, windowSum(lanes, row, c, lrn.size));
}

void pixelOf(const Lrn &lrn, const float *x, float *y, float *scratch) {
  writeSquares(lrn, x, scratch);
  forChannels(lrn.channels, [&](auto lanes, int64_t c) {
    lanes.store(hn::Mul(lanes.load(x + c), inversePower(scaleAt(lrn, lanes, scratch, c), lrn.beta)), y + c);
  });
}

void gradientPixelOf(const Lrn &lrn, const float *g, const float *x, float *dx, float *scratch) {
  const D d;
  writeSquares(lrn, x, scratch);
  float *terms = scratch + lrn.channels + lrn.size;
  const int64_t before = lrn.size - 1 - (lrn.size - 1) / 2;  // mirrored, because these are the windows that contain c
  std::fill_n(terms, before, 0.0f);
  std::fill_n(terms + before + lrn.channels, lrn.size - 1 - before, 0.0f);
  float *direct = terms + lrn.channels + lrn.size;
  forChannels(lrn.channels, [&](auto lanes, int64_t c) {
    const V s = scaleAt(lrn, lanes, scratch, c), p = hn::Mul(lanes.load(g + c), inversePower(s, lrn.beta));
    lanes.store(p, direct + c);
    lanes.store(hn::Div(hn::Mul(p, lanes.load(x + c)), s), terms + before + c);
  });
  const V factor = hn::Set(d, 2 * lrn.alpha * lrn.beta / static_cast<float>(lrn.size));
  forChannels(lrn.channels, [&](auto lanes, int64_t c) {
    const V back = hn::Mul(hn::Mul(factor, lanes.load(x + c)), windowSum(lanes, terms, c, lrn.size));
    lanes.store(hn::Sub(lanes.load(direct + c), back), dx + c);
  });
}

// For one vector of pixels: the sum of terms over the existing channels of [c - before, c - before + size).
template <class Term>
HWY_INLINE V channelSum(const Lrn &lrn, int64_t c, int64_t before, const Term &term) {
  const int64_t begin = std::max<int64_t>(0, c - before), end = std::min(lrn.channels, c - before + lrn.size);
  V sum = hn::Zero(D());
  for (int64_t i = begin; i < end; ++i) sum = hn::Add(sum, term(i));
  return sum;
}
template <class Lanes>
HWY_INLINE V scaleOfChannel(const Lrn &lrn, Lanes lanes, const float *x, ptrdiff_t stride, int64_t c) {
  return scaleOf(lrn, channelSum(lrn, c, (lrn.size - 1) / 2, [&](int64_t i) {
                   const V v = lanes.load(x + i * stride);
                   return hn::Mul(v, v);
                 }));
}

void placesOf(const Lrn &lrn, const LrnPlaces &places, const float *x, float *y) {
  for (int64_t c = 0; c < lrn.channels; ++c)
    forChannels(places.count, [&](auto lanes, int64_t p) {
      const V s = scaleOfChannel(lrn, lanes, x + p, places.stride, c);
      const int64_t at = c * places.stride + p;
      lanes.store(hn::Mul(lanes.load(x + at), inversePower(s, lrn.beta)), y + at);
    });
}

// As gradientPixelOf(). dx first stores the direct term of the gradient.
void gradientPlacesOf(const Lrn &lrn, const LrnPlaces &places, const float *g, const float *x, float *dx,
                      float *terms) {
  for (int64_t c = 0; c < lrn.channels; ++c)
    forChannels(places.count, [&](auto lanes, int64_t p) {
      const int64_t at = c * places.stride + p;
      const V s = scaleOfChannel(lrn, lanes, x + p, places.stride, c);
      const V direct = hn::Mul(lanes.load(g + at), inversePower(s, lrn.beta));
      lanes.store(direct, dx + at);
      lanes.store(hn::Div(hn::Mul(direct, lanes.load(x + at)), s), terms + c * places.count + p);
    });
  const V factor = hn::Set(D(), 2 * lrn.alpha * lrn.beta / static_cast<float>(lrn.size));
  const int64_t before = lrn.size - 1 - (lrn.size - 1) / 2;
  for (int64_t c = 0; c < lrn.channels; ++c)
    forChannels(places.count, [&](auto lanes, int64_t p) {
      const int64_t at = c * places.stride + p;
      const V sum = channelSum(lrn, c, before, [&](int64_t i) { return lanes.load(terms + i * places.count + p); });
      const V back = hn::Mul(hn::Mul(factor, lanes.load(x + at)), sum);
      lanes.store(hn::Sub(lanes.load(dx + at), back), dx + at);
    });
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(pixelOf);
HWY_EXPORT(gradientPixelOf);
HWY_EXPORT(placesOf);
HWY_EXPORT(gradientPlacesOf);

int64_t lrnScratchFloats(const Lrn &lrn) noexcept { return 3 * (lrn.channels + lrn.size); }
void lrnPixel(const Lrn &lrn, const float *x, float *y, float *scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(pixelOf)(lrn, x, y, scratch);
}
void lrnGradientPixel(const Lrn &lrn, const float *g, const float *x, float *dx, float *scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(gradientPixelOf)(lrn, g, x, dx, scratch);
}
void lrnPlaces(const Lrn &lrn, const LrnPlaces &places, const float *x, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(placesOf)(lrn, places, x, y);
}
void lrnGradientPlaces(const Lrn &lrn, const LrnPlaces &places, const float *g, const float *x, float *dx,
                       float *scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(gradientPlacesOf)(lrn, places, g, x, dx, scratch);
}
}  // namespace popart::cpu
#endif
