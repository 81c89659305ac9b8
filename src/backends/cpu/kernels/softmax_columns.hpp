// Softmax along the columns of float32 matrices, and its gradient, in steps over blocks: `rows` rows, `stride` numbers
// apart, of `columns` neighbouring columns. A step writes its result for each column to a row of `columns` numbers,
// which later steps read.
// Invariant: a column's sum runs over the rows of its block in ascending order; neighbouring columns never change a
// bit.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/rows.hpp"

namespace popart::cpu {

struct ColumnBlock {
  int64_t stride, rows, columns;
};

// sums[c] = sum of exp(x - maxima[c]); in the form kProbability, y receives the exponentials. y may be x.
void softmaxColumnSums(SoftmaxForm form, const ColumnBlock &block, const float *x, float *y, const float *maxima,
                       float *sums) noexcept;
// sum = 1 / sum, or log(sum), of whole columns, as the next step requires.
void softmaxColumnScales(SoftmaxForm form, int64_t columns, float *sums) noexcept;
// y = y * scale, or x - maximum - scale. y may be x.
void softmaxColumnEnd(SoftmaxForm form, const ColumnBlock &block, const float *x, float *y, const float *maxima,
                      const float *scales) noexcept;

// The largest y of each column, the first of equal ones, and dy at its position. rows >= 1.
void largestOfColumns(const ColumnBlock &block, const float *y, const float *dy, float *largest, float *there) noexcept;
// sums[c] = sum of y (dy - shift[c]).
void softmaxColumnDots(const ColumnBlock &block, const float *y, const float *dy, const float *shift,
                       float *sums) noexcept;
// From the sums of whole columns: dx = y * (dy - shift - sum), or dy - exp(y) * sum. dx may be dy.
void softmaxColumnGradient(SoftmaxForm form, const ColumnBlock &block, const float *y, const float *dy, float *dx,
                           const float *shift, const float *sums) noexcept;

}  // namespace popart::cpu
