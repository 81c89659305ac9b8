// Sums and rescaling of columns of a matrix with rows `stride` apart, for normalisations and reductions over
// channels-last activations. A block is `rows` x `cols`. The matrices x, y, g and dx are of `type` (FLOAT, FLOAT16,
// BFLOAT16), all numbers per column are FLOAT.
// Invariant: a column's sum accumulates in float over 64 rows at a time, and in double over these partial sums, in
// ascending order. Neither the block's width nor the instruction set's vector width changes a bit.
#pragma once
#include <cstddef>
#include <cstdint>

#include <popart/datatype.hpp>

namespace popart::cpu {

struct Columns {
  ptrdiff_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  DataType type = DataType::FLOAT;
};

// sums[c] += sum over rows of x[r, c].
void columnSums(const Columns &block, const void *x, double *sums) noexcept;
// sums[c] += sum over rows of (x[r, c] - mean[c])².
void columnSquares(const Columns &block, const void *x, const float *mean, double *sums) noexcept;
// sums[c] += sum over rows of g[r, c]; dots[c] += sum over rows of g[r, c] (x[r, c] - mean[c]).
void columnGradientSums(const Columns &block, const void *g, const void *x, const float *mean, double *sums,
                        double *dots) noexcept;
// y[r, c] = (x[r, c] - mean[c]) scale[c] + shift[c]. y may be x.
void columnNormalise(const Columns &block, const void *x, const float *mean, const float *scale, const float *shift,
                     void *y) noexcept;
// dx[r, c] = g[r, c] scale[c] - (x[r, c] - mean[c]) slope[c] - shift[c]. dx may be g or x.
void columnNormaliseGradient(const Columns &block, const void *g, const void *x, const float *mean, const float *scale,
                             const float *slope, const float *shift, void *dx) noexcept;
// out[c] = maximum of column c; NaN if the column has one. rows >= 1.
void columnMaxima(const Columns &block, const void *x, float *out) noexcept;

}  // namespace popart::cpu
