// Inner loops of depthwise convolutions (one input channel per output channel), vectorised over channels; the plans are
// in conv.hpp. Weights are packed as the matrix (taps x C), see pack.hpp. Invariant: a sum runs over ascending taps
// (pixels for weights) in one chain per channel, so that vector width and partition never change a bit.
#pragma once

#include <cstdint>

namespace popart::cpu {

// One term of a pixel's sum: where the source pixel's channels begin, and the kernel tap.
struct TapTerm {
  int64_t source;
  int64_t tap;
};

// out[c] = sum over terms of source[term.source + c] * weight[term.tap, c] for c in [0, channels).
void depthwisePixel(const float *source, const TapTerm *terms, int64_t termCount, const float *packed, int64_t taps,
                    int64_t channels, float *out) noexcept;

// One pixel pair of a weight gradient's sum: offsets of the channels of x and of dy.
struct PixelTerm {
  int64_t x;
  int64_t dy;
};

// sums[c] += sum over terms of x[term.x + c] * dy[term.dy + c] for c in [0, channels), channels at most panelWidth().
void depthwiseWeightSums(const float *x, const float *dy, const PixelTerm *terms, int64_t termCount, int64_t channels,
                         float *sums) noexcept;

}  // namespace popart::cpu
