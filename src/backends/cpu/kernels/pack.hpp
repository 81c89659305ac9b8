// Packed-panel layout of the B operand: [ceil(N / NR)][K][NR] with NR = panelWidth(), lanes beyond N zero.
// Invariant: packing is a pure permutation plus zeros, the same as MatrixPanels of layouts/panels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// Floats per panel on this processor's instruction set.
int panelWidth() noexcept;

// Floats that a packed (K, N) matrix takes.
int64_t packedSize(int64_t k, int64_t n) noexcept;

// packed <- B with B[k, n] at b[k * rowStride + n * colStride]. Row-major [K, N]: (N, 1); transposed [N, K]: (1, K).
void packPanels(const float *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int64_t n, float *packed) noexcept;

// One panel of the above: columns [0, cols) with cols <= width, `k` rows, destination rows `width` apart, rest zero.
void packPanel(const float *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols, int width,
               float *panel) noexcept;

}  // namespace popart::cpu
