// Transposition in 4 x 4 register blocks inside tiles that fit the first level cache; edges go element by element.
// The shuffles are part of baseline x86-64, so no run-time dispatch is needed; other machines use the plain loop.
#include "backends/cpu/kernels/transpose.hpp"

#include <algorithm>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace popart::cpu {
namespace {

constexpr int64_t kTile = 64;

// to[r * toStride + c] = from[c * fromStride + r] for a 4 x 4 block.
void transposeFour(const float *from, ptrdiff_t fromStride, float *to, ptrdiff_t toStride) {
#if defined(__SSE__)
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + fromStride);
  __m128 c = _mm_loadu_ps(from + 2 * fromStride), d = _mm_loadu_ps(from + 3 * fromStride);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + toStride, b);
  _mm_storeu_ps(to + 2 * toStride, c);
  _mm_storeu_ps(to + 3 * toStride, d);
#else
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) to[r * toStride + c] = from[c * fromStride + r];
  }
#endif
}

}  // namespace

void transpose(const float *x, ptrdiff_t xStride, float *y, ptrdiff_t yStride, int64_t rows, int64_t cols) noexcept {
  const int64_t wholeRows = rows - rows % 4, wholeCols = cols - cols % 4;
  for (int64_t tile = 0; tile < wholeCols; tile += kTile) {
    const int64_t end = std::min(wholeCols, tile + kTile);
    for (int64_t r = 0; r < wholeRows; r += 4) {
      for (int64_t c = tile; c < end; c += 4) transposeFour(x + r * xStride + c, xStride, y + c * yStride + r, yStride);
    }
  }
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = c < wholeCols ? wholeRows : 0; r < rows; ++r) y[c * yStride + r] = x[r * xStride + c];
  }
}

}  // namespace popart::cpu
