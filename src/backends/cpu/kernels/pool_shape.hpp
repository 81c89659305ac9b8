// Geometry of a pooling. Invariant: plain numbers; validity is checked where operators are built, not here.
#pragma once
#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/conv_shape.hpp"

namespace popart::cpu {

enum class PoolKind : uint8_t { kMaximum, kAverage };

// A pooling of `n` images with `channels` channels each.
struct Pool {
  int64_t n = 1, channels = 1;
  int64_t xStride = 0, yStride = 0;  // elements from pixel to pixel, channels last; 0: the number of channels
  Spatial in, out, kernel, stride = {1, 1, 1}, dilation = {1, 1, 1}, padLow = {0, 0, 0}, padHigh = {0, 0, 0};
  int64_t pixelOfX() const { return xStride > 0 ? xStride : channels; }
  int64_t pixelOfY() const { return yStride > 0 ? yStride : channels; }
  int64_t taps() const { return volume(kernel); }
  int64_t inputPixels() const { return volume(in); }
  int64_t outputPixels() const { return volume(out); }
};

// One dimension of a window: its taps inside the input, which are `dilation` apart, and the number of taps inside the
// padded input.
struct Reach {
  int64_t first = 0, count = 0, padded = 0;  // input position of the first valid tap
};
// The reach of the window at position `at` of dimension d.
inline Reach reach(const Pool &p, size_t d, int64_t at) {
  const int64_t begin = at * p.stride[d] - p.padLow[d], step = p.dilation[d], kernel = p.kernel[d];
  const int64_t skip = begin < 0 ? (-begin + step - 1) / step : 0;
  auto until = [&](int64_t limit) { return limit <= begin ? 0 : std::min(kernel, (limit - begin + step - 1) / step); };
  return {begin + skip * step, std::max<int64_t>(until(p.in[d]) - skip, 0), until(p.in[d] + p.padHigh[d])};
}

}  // namespace popart::cpu
