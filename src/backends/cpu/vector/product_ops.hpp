// Products of rows and columns of float32 matrices, in double, and quotients of them, for the gradient of a product;
// vectorised per instruction set.
// Invariant: the order of multiplication depends only on the lengths and the instruction set.
#pragma once

#include <cstdint>

namespace popart::cpu {

// For some elements: how many are 0, and the product of the others. `lowest` is at most the smallest magnitude of all
// intermediate products: if it is a normal number and the product is finite, every step was only rounded, without
// underflow or overflow.
struct NonZeroProduct {
  double product = 1, lowest = 1;
  int64_t zeros = 0;
};
// Over `count` contiguous elements.
NonZeroProduct productOfRow(const float *x, int64_t count) noexcept;
// out[c] for columns [0, columns): over `rows` elements x[r * stride + c].
void productsOfColumns(const float *x, int64_t stride, int64_t rows, int64_t columns, NonZeroProduct *out) noexcept;

// y = over / x if x is not 0, else atZero, rounded once. y may be x.
void divideRow(double over, float atZero, const float *x, int64_t count, float *y) noexcept;
// The same for every column of a matrix, with its own over[c] and atZero[c]; y has the layout of x.
void divideColumns(const double *over, const float *atZero, const float *x, int64_t stride, int64_t rows,
                   int64_t columns, float *y) noexcept;

}  // namespace popart::cpu
