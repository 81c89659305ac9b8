// Row-wise parts of attention (kernels/attention.hpp): the softmax of rows that arrive in pieces, its gradient, copies.
// Invariant: the order of a row's sums depends only on the columns of the call and the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// The state of rows whose softmax is computed in pieces: the largest score so far, the sum of exp(score - largest), and
// the factor by which the last piece scaled the earlier ones down.
struct RunningSoftmax {
  float *largest;  // -inf before the first piece
  float *sum;      // 0 before the first piece
  float *factor;
};

// Adds `cols` further scores of each row: s = exp(s - largest).
void softmaxPiece(float *s, ptrdiff_t stride, int64_t rows, int64_t cols, const RunningSoftmax &state) noexcept;

// y[row] = (x[row] * factor[row]) * scale; a factor of nullptr is 1. y may be x.
void scaleRows(const float *x, ptrdiff_t xStride, const float *factor, float scale, float *y, ptrdiff_t yStride,
               int64_t rows, int64_t cols) noexcept;

// probability = exp(s - largest) / total; gradient = probability * (gradient - shift). probability may be s.
void probabilityGradient(const float *s, float largest, float total, float shift, float *probability, float *gradient,
                         int64_t cols) noexcept;

// Sum of a[i] * b[i].
float dotRow(const float *a, const float *b, int64_t cols) noexcept;

}  // namespace popart::cpu
