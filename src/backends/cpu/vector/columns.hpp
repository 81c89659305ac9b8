// Sums and rescaling of columns of a float32 matrix whose rows are `stride` apart: what normalisations and reductions
// over channels-last activations are made of. A block is `rows` x `cols`. Invariant: a column's sum accumulates in
// float over 64 rows at a time and carried in double, in ascending order: neither the block's width nor the instruction
// set's vector width changes a bit.
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart::cpu {

struct Columns {
  ptrdiff_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};

// sums[c] += sum over rows of x[r, c].
void columnSums(const Columns &block, const float *x, double *sums) noexcept;
// sums[c] += sum over rows of (x[r, c] - mean[c])².
void columnSquares(const Columns &block, const float *x, const float *mean, double *sums) noexcept;
// sums[c] += sum over rows of g[r, c]; dots[c] += sum over rows of g[r, c] (x[r, c] - mean[c]).
void columnGradientSums(const Columns &block, const float *g, const float *x, const float *mean, double *sums,
                        double *dots) noexcept;
// y[r, c] = (x[r, c] - mean[c]) scale[c] + shift[c]. y may be x.
void columnNormalise(const Columns &block, const float *x, const float *mean, const float *scale, const float *shift,
                     float *y) noexcept;
// dx[r, c] = g[r, c] scale[c] - (x[r, c] - mean[c]) slope[c] - shift[c]. dx may be g or x.
void columnNormaliseGradient(const Columns &block, const float *g, const float *x, const float *mean,
                             const float *scale, const float *slope, const float *shift, float *dx) noexcept;
// out[c] = maximum of column c; NaN when it holds one. rows >= 1.
void columnMaxima(const Columns &block, const float *x, float *out) noexcept;

}  // namespace popart::cpu
