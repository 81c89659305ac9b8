// Packing loops, see pack.hpp. A column-contiguous source is walked in 16-row strips so that each source line is used
// whole.
#include "backends/cpu/kernels/pack.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/micro_kernel.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace popart::cpu {
namespace {

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

// One panel of a source whose columns are contiguous, in 4 x 4 blocks, edges element by element.
void packColumns(const float *b, ptrdiff_t colStride, int64_t k, int cols, int width, float *panel) {
  const int64_t wholeRows = k - k % 4;
  const int wholeCols = cols - cols % 4;
  for (int64_t row = 0; row < wholeRows; row += 4) {
    for (int n = 0; n < wholeCols; n += 4)
      transposeFour(b + n * colStride + row, colStride, panel + row * width + n, width);
  }
  for (int64_t row = 0; row < k; ++row) {
    float *out = panel + row * width;
    for (int n = row < wholeRows ? wholeCols : 0; n < cols; ++n) out[n] = b[n * colStride + row];
    std::fill(out + cols, out + width, 0.0f);
  }
}

}  // namespace

int panelWidth() noexcept { return microKernels().panelWidth; }

int64_t packedSize(int64_t k, int64_t n) noexcept {
  const int64_t width = panelWidth();
  return (n + width - 1) / width * width * k;
}

void packPanel(const float *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int cols, int width,
               float *panel) noexcept {
  if (colStride == 1) {
    for (int64_t row = 0; row < k; ++row) {
      float *out = panel + row * width;
      std::memcpy(out, b + row * rowStride, static_cast<size_t>(cols) * sizeof(float));
      std::fill(out + cols, out + width, 0.0f);
    }
    return;
  }
  if (rowStride == 1) return packColumns(b, colStride, k, cols, width, panel);
  constexpr int64_t kStrip = 16;
  for (int64_t strip = 0; strip < k; strip += kStrip) {
    const int64_t end = std::min(k, strip + kStrip);
    for (int n = 0; n < width; ++n) {
      const float *column = b + n * colStride;
      for (int64_t row = strip; row < end; ++row) panel[row * width + n] = n < cols ? column[row * rowStride] : 0.0f;
    }
  }
}

void packPanels(const float *b, ptrdiff_t rowStride, ptrdiff_t colStride, int64_t k, int64_t n,
                float *packed) noexcept {
  const int width = panelWidth();
  for (int64_t first = 0; first < n; first += width) {
    packPanel(b + first * colStride, rowStride, colStride, k, static_cast<int>(std::min<int64_t>(width, n - first)),
              width, packed + first * k);
  }
}

void unpackPanels(const float *packed, int64_t k, int64_t n, float *b, ptrdiff_t rowStride,
                  ptrdiff_t colStride) noexcept {
  const int64_t width = panelWidth();
  for (int64_t first = 0; first < n; first += width) {
    const int64_t cols = std::min(width, n - first);
    const float *panel = packed + first * k;
    for (int64_t row = 0; row < k; ++row) {
      float *out = b + row * rowStride + first * colStride;
      for (int64_t col = 0; col < cols; ++col) out[col * colStride] = panel[row * width + col];
    }
  }
}

}  // namespace popart::cpu
