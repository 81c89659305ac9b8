// Vectorised transposition of matrices of 32-bit, 16-bit and 8-bit elements.
// Invariant: a pure permutation; every bit pattern, NaN payloads included, arrives unchanged.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// y[c, r] = x[r, c] for r in [0, rows), c in [0, cols); rows of x are xStride apart, rows of y yStride. No overlap.
void transpose(const float *x, ptrdiff_t xStride, float *y, ptrdiff_t yStride, int64_t rows, int64_t cols) noexcept;
void transpose(const uint16_t *x, ptrdiff_t xStride, uint16_t *y, ptrdiff_t yStride, int64_t rows,
               int64_t cols) noexcept;
void transpose(const uint8_t *x, ptrdiff_t xStride, uint8_t *y, ptrdiff_t yStride, int64_t rows, int64_t cols) noexcept;

}  // namespace popart::cpu
