// See winograd_transforms.hpp. Compiled once per instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/winograd_transforms.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/winograd_transforms.hpp"
#include "backends/cpu/kernels/lanes-inl.hpp"
// clang-format on
#include <algorithm>

#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/pack.hpp"

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using lanes::AllLanes;
using lanes::D;
using lanes::FirstLanes;
using lanes::V;

HWY_INLINE int64_t lanesOf() { return static_cast<int64_t>(hn::Lanes(D())); }
HWY_INLINE V halfOf(V v) { return hn::Mul(hn::Set(D(), 0.5f), v); }

HWY_INLINE void ofInputs(V a, V b, V c, V d, V (&to)[4]) {
  to[0] = hn::Sub(a, c), to[1] = hn::Add(b, c), to[2] = hn::Sub(c, b), to[3] = hn::Sub(b, d);
}
HWY_INLINE void ofWeights(V a, V b, V c, V (&to)[4]) {
  const V outer = hn::Add(a, c);
  to[0] = a, to[1] = halfOf(hn::Add(outer, b)), to[2] = halfOf(hn::Sub(outer, b)), to[3] = c;
}
HWY_INLINE void ofSums(V a, V b, V c, V d, V (&to)[2]) {
  to[0] = hn::Add(a, hn::Add(b, c)), to[1] = hn::Sub(hn::Sub(b, c), d);
}
HWY_INLINE void ofGradients(V a, V b, V (&to)[4]) {
  to[0] = a, to[1] = hn::Add(a, b), to[2] = hn::Sub(a, b), to[3] = hn::Neg(b);
}
HWY_INLINE void ofWeightSums(V a, V b, V c, V d, V (&to)[3]) {
  const V sum = halfOf(hn::Add(b, c));
  to[0] = hn::Add(a, sum), to[1] = halfOf(hn::Sub(b, c)), to[2] = hn::Add(sum, d);
}

template <class Lanes>
HWY_INLINE void inputVector(const std::array<const float *, 16> &pixels, Lanes lanes, int64_t channel, float *v,
                            int64_t plane) {
  V rows[4][4];  // transformed along lines
  for (size_t r = 0; r < 4; ++r)
    ofInputs(lanes.load(pixels[4 * r] + channel), lanes.load(pixels[4 * r + 1] + channel),
             lanes.load(pixels[4 * r + 2] + channel), lanes.load(pixels[4 * r + 3] + channel), rows[r]);
  for (int c = 0; c < 4; ++c) {
    V column[4];
    ofInputs(rows[0][c], rows[1][c], rows[2][c], rows[3][c], column);
    for (int r = 0; r < 4; ++r) lanes.store(column[r], v + (4 * r + c) * plane + channel);
  }
}

void inputsOf(const std::array<const float *, 16> &pixels, int64_t channels, float *v, int64_t plane) {
  const int64_t full = channels - channels % lanesOf();
  for (int64_t c = 0; c < full; c += lanesOf()) inputVector(pixels, AllLanes(), c, v, plane);
  if (full < channels) inputVector(pixels, FirstLanes(channels - full), full, v, plane);
}

// The compiler removes what no column of the part needs.
template <WinogradPart kPart>
void partOfWeights(const std::array<const float *, 9> &taps, int64_t count, float *u, int64_t plane) {
  constexpr int64_t kColumns = matricesOf(kPart) / 4;
  for (int64_t i = 0; i < count; i += lanesOf()) {
    V rows[3][4];
    for (size_t r = 0; r < 3; ++r)
      ofWeights(hn::LoadU(D(), taps[3 * r] + i), hn::LoadU(D(), taps[3 * r + 1] + i),
                hn::LoadU(D(), taps[3 * r + 2] + i), rows[r]);
    for (int64_t c = 0; c < kColumns; ++c) {
      V column[4];
      const int64_t from = matrixOf(kPart, c);
      ofWeights(rows[0][from], rows[1][from], rows[2][from], column);
      for (int64_t r = 0; r < 4; ++r) hn::StoreU(column[r], D(), u + (kColumns * r + c) * plane + i);
    }
  }
}

void weightsOf(WinogradPart part, const std::array<const float *, 9> &taps, int64_t count, float *u, int64_t plane) {
  switch (part) {
    case WinogradPart::kAll:
      return partOfWeights<WinogradPart::kAll>(taps, count, u, plane);
    case WinogradPart::kOuter:
      return partOfWeights<WinogradPart::kOuter>(taps, count, u, plane);
    case WinogradPart::kInner:
      return partOfWeights<WinogradPart::kInner>(taps, count, u, plane);
  }
}

void sumsOf(const float *m, int64_t stride, int64_t plane, int64_t tiles, int64_t columns, float *y) {
  for (int64_t tile = 0; tile < tiles; ++tile, m += stride)
    for (int64_t n = 0; n < columns; n += lanesOf()) {
      V columnsOf[4][2];
      for (int c = 0; c < 4; ++c) {
        const float *at = m + c * plane + n;
        ofSums(hn::LoadU(D(), at), hn::LoadU(D(), at + 4 * plane), hn::LoadU(D(), at + 8 * plane),
               hn::LoadU(D(), at + 12 * plane), columnsOf[c]);
      }
      for (int line = 0; line < 2; ++line) {
        V pixels[2];
        ofSums(columnsOf[0][line], columnsOf[1][line], columnsOf[2][line], columnsOf[3][line], pixels);
        float *to = y + (line * tiles + tile) * 2 * columns + n;
        hn::StoreU(pixels[0], D(), to), hn::StoreU(pixels[1], D(), to + columns);
      }
    }
}

template <class Lanes>
HWY_INLINE void gradientVector(const std::array<const float *, 4> &pixels, Lanes lanes, int64_t column, float *z,
                               int64_t plane) {
  V rows[2][4];
  for (size_t r = 0; r < 2; ++r)
    ofGradients(lanes.load(pixels[2 * r] + column), lanes.load(pixels[2 * r + 1] + column), rows[r]);
  for (int c = 0; c < 4; ++c) {
    V to[4];
    ofGradients(rows[0][c], rows[1][c], to);
    for (int r = 0; r < 4; ++r) hn::StoreU(to[r], D(), z + (4 * r + c) * plane);
  }
}

void gradientsOf(const std::array<const float *, 4> &pixels, int64_t count, float *z, int64_t plane,
                 int64_t panelStride) {
  const int64_t width = panelWidth(), full = count - count % lanesOf(), padded = ceilDiv(count, width) * width;
  for (int64_t n = 0; n < padded; n += lanesOf()) {
    float *to = z + n / width * panelStride + n % width;
    if (n < full)
      gradientVector(pixels, AllLanes(), n, to, plane);
    else if (n < count)
      gradientVector(pixels, FirstLanes(count - n), n, to, plane);
    else
      for (int i = 0; i < kWinogradMatrices; ++i) hn::StoreU(hn::Zero(D()), D(), to + i * plane);
  }
}

void weightSumsOf(const float *n, int64_t stride, int64_t plane, int64_t rows, float *w, int64_t tap) {
  const int64_t width = panelWidth();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; i += lanesOf()) {
      const float *from = n + row * stride + i;
      V columnsOf[4][3];
      for (int c = 0; c < 4; ++c) {
        const float *at = from + c * plane;
        ofWeightSums(hn::LoadU(D(), at), hn::LoadU(D(), at + 4 * plane), hn::LoadU(D(), at + 8 * plane),
                     hn::LoadU(D(), at + 12 * plane), columnsOf[c]);
      }
      for (int line = 0; line < 3; ++line) {
        V taps[3];
        ofWeightSums(columnsOf[0][line], columnsOf[1][line], columnsOf[2][line], columnsOf[3][line], taps);
        for (int c = 0; c < 3; ++c) hn::StoreU(taps[c], D(), w + (3 * line + c) * tap + row * width + i);
      }
    }
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(inputsOf);
HWY_EXPORT(weightsOf);
HWY_EXPORT(sumsOf);
HWY_EXPORT(gradientsOf);
HWY_EXPORT(weightSumsOf);

WinogradTiles::WinogradTiles(const WindowShape &w)
    : window(w), images(w.n * w.out[0]), lines(ceilDiv(w.out[1], 2)), columns(ceilDiv(w.out[2], 2)) {}

bool WinogradTiles::fits(const WindowShape &w, int64_t columns) {
  const Spatial ones = {1, 1, 1};
  if (w.taps != Spatial{1, 3, 3} || w.stride != ones || w.dilation != ones) return false;
  if (w.low[0] != 0 || w.in[0] != w.out[0]) return false;
  // Transforms take the time of some multiply-adds per input, weight and output, whatever the number of channels.
  constexpr int64_t kFewestChannels = 16, kFewestWeights = 32 * 32, kFewestTiles = 16;
  if (std::min(w.channels, columns) < kFewestChannels || w.channels * columns < kFewestWeights) return false;
  // At most 16 / 25 of the multiplications, with those of outputs outside of the image.
  const int64_t ofImage = ceilDiv(w.out[1], 2) * ceilDiv(w.out[2], 2);
  return ofImage >= kFewestTiles && 9 * w.out[1] * w.out[2] >= 25 * ofImage;
}

std::array<const float *, 16> WinogradTiles::inputs(int64_t tile, const float *x, const float *zeros) const {
  const WindowShape &w = window;
  const int64_t line = tile / columns % lines * 2 - w.low[1], column = tile % columns * 2 - w.low[2];
  const float *image = x + tile / (lines * columns) * w.in[1] * w.in[2] * w.pixelStride;
  std::array<const float *, 16> pixels;
  for (int64_t i = 0; i < 16; ++i) {
    const int64_t l = line + i / 4, c = column + i % 4;
    const bool isInside = l >= 0 && l < w.in[1] && c >= 0 && c < w.in[2];
    pixels[static_cast<size_t>(i)] = isInside ? image + (l * w.in[2] + c) * w.pixelStride : zeros;
  }
  return pixels;
}

std::array<const float *, 4> WinogradTiles::outputs(int64_t tile, const float *y, int64_t stride,
                                                    const float *zeros) const {
  const WindowShape &w = window;
  const int64_t line = tile / columns % lines * 2, column = tile % columns * 2;
  const float *image = y + tile / (lines * columns) * w.out[1] * w.out[2] * stride;
  std::array<const float *, 4> pixels;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t l = line + i / 2, c = column + i % 2;
    pixels[static_cast<size_t>(i)] = l < w.out[1] && c < w.out[2] ? image + (l * w.out[2] + c) * stride : zeros;
  }
  return pixels;
}

void transformInputs(const std::array<const float *, 16> &pixels, int64_t channels, float *v, int64_t plane) noexcept {
  HWY_DYNAMIC_DISPATCH(inputsOf)(pixels, channels, v, plane);
}
void transformWeights(WinogradPart part, const std::array<const float *, 9> &taps, int64_t count, float *u,
                      int64_t plane) noexcept {
  HWY_DYNAMIC_DISPATCH(weightsOf)(part, taps, count, u, plane);
}
void transformSums(const float *m, int64_t stride, int64_t plane, int64_t tiles, int64_t columns, float *y) noexcept {
  HWY_DYNAMIC_DISPATCH(sumsOf)(m, stride, plane, tiles, columns, y);
}
void transformGradients(const std::array<const float *, 4> &pixels, int64_t count, float *z, int64_t plane,
                        int64_t panelStride) noexcept {
  HWY_DYNAMIC_DISPATCH(gradientsOf)(pixels, count, z, plane, panelStride);
}
void transformWeightSums(const float *n, int64_t stride, int64_t plane, int64_t rows, float *w, int64_t tap) noexcept {
  HWY_DYNAMIC_DISPATCH(weightSumsOf)(n, stride, plane, rows, w, tap);
}

}  // namespace popart::cpu
#endif
