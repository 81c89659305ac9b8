// Packing of BFLOAT16 matrices for kernels that multiply pairs. Element i of a pair is k = 2 pair + i; elements from
// `k` on are zero. A pair has the size of a float; elements are only moved.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// Number of pairs of k elements.
constexpr int64_t pairsOf(int64_t k) { return (k + 1) / 2; }

// packPanel (pack.hpp) in pairs: columns [0, cols) of k rows of B, element (k, n) at b[k * rowStride + n * colStride].
// Destination rows are `width` pairs apart; columns from `cols` on are zero.
void packPairPanel(const uint16_t *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols, int width,
                   float *panel) noexcept;

// Copies `count` rows of A, element (m, k) at a[m * rowStride + k], to rows of pairs rowPairs apart.
void copyPairRows(const uint16_t *a, ptrdiff_t rowStride, int64_t k, int count, ptrdiff_t rowPairs, float *to) noexcept;

// Pairs of the numbers at the same position of two matrices: `rows` rows of `cols` columns, rowStride apart.
// Destination rows are `width` pairs apart; columns from `cols` on are zero. `second` null: zeros.
void pairMatrices(const uint16_t *first, const uint16_t *second, ptrdiff_t rowStride, int64_t rows, int64_t cols,
                  int64_t width, float *to) noexcept;

}  // namespace popart::cpu
