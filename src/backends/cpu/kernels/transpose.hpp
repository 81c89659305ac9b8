// Vectorised transposition of float32 matrices, the step between channels-first and channels-last layouts.
// Invariant: a pure permutation; every bit pattern, NaN payloads included, arrives unchanged.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// y[c, r] = x[r, c] for r in [0, rows), c in [0, cols); rows of x are xStride apart, rows of y yStride. No overlap.
void transpose(const float *x, ptrdiff_t xStride, float *y, ptrdiff_t yStride, int64_t rows, int64_t cols) noexcept;

// (N, C, P) to (N, P, C) and back, P spatial places, for images [begin, end).
void channelsLast(const float *x, float *y, int64_t channels, int64_t places, int64_t begin, int64_t end) noexcept;
void channelsFirst(const float *x, float *y, int64_t channels, int64_t places, int64_t begin, int64_t end) noexcept;

}  // namespace popart::cpu
