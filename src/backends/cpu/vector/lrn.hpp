// Local response normalisation (ONNX LRN-13) and its gradient, for one pixel whose channels are contiguous, or for
// contiguous pixels whose channels are `stride` floats apart. Both give the same bits.
// s[c] = bias + alpha / size · sum of x² over channels [c - floor((size - 1) / 2), c + ceil((size - 1) / 2)]
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart::cpu {

struct Lrn {
  int64_t channels = 1, size = 1;
  float alpha = 1e-4f, beta = 0.75f, bias = 1.0f;
};
// Floats of scratch memory that one call needs.
int64_t lrnScratchFloats(const Lrn &lrn) noexcept;
// y[c] = x[c] s[c]^-beta. y may be x.
void lrnPixel(const Lrn &lrn, const float *x, float *y, float *scratch) noexcept;
// dx[c] = g[c] s[c]^-beta - 2 alpha beta / size · x[c] · sum of g x s^(-beta - 1) over the channels whose s contains c.
// dx may be g or x.
void lrnGradientPixel(const Lrn &lrn, const float *g, const float *x, float *dx, float *scratch) noexcept;

// Pixels in plain memory. y must not be x.
struct LrnPlaces {
  ptrdiff_t stride;
  int64_t count;
};
void lrnPlaces(const Lrn &lrn, const LrnPlaces &places, const float *x, float *y) noexcept;
// dx must be neither g nor x. Scratch memory: one float for each channel of each pixel.
void lrnGradientPlaces(const Lrn &lrn, const LrnPlaces &places, const float *g, const float *x, float *dx,
                       float *scratch) noexcept;

}  // namespace popart::cpu
