// What the gradient of a product needs, vectorised per instruction set: products of rows and columns of float32
// matrices in double, and quotients of them.
// Invariant: the order of multiplication depends on the lengths and the instruction set only.
#pragma once

#include <cstdint>

namespace popart::cpu {

// Of some elements: how many are 0, and the product of the others. `lowest` is at most the smallest magnitude that a
// product of some of them had on the way: where it is a normal number and the product is finite, no step but rounded.
struct NonZeroProduct {
  double product = 1, lowest = 1;
  int64_t zeros = 0;
};
// Over `count` consecutive elements.
NonZeroProduct productOfRow(const float *x, int64_t count) noexcept;
// out[c] for columns [0, columns): over `rows` elements x[r * stride + c].
void productsOfColumns(const float *x, int64_t stride, int64_t rows, int64_t columns, NonZeroProduct *out) noexcept;

// y = over / x where x is not 0, and atZero where it is, rounded once. y may be x.
void divideRow(double over, float atZero, const float *x, int64_t count, float *y) noexcept;
// The same for every column of a matrix, with its own over[c] and atZero[c]; y lies as x does.
void divideColumns(const double *over, const float *atZero, const float *x, int64_t stride, int64_t rows,
                   int64_t columns, float *y) noexcept;

}  // namespace popart::cpu
