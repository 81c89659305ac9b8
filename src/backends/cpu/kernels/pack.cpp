// Packing loops, see pack.hpp. A column-contiguous source is walked in 16-row strips so that each source line is used
// whole.
#include "backends/cpu/kernels/pack.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/micro_kernel.hpp"
#include "backends/cpu/kernels/transpose.hpp"

namespace popart::cpu {
namespace {

// One panel of a source whose columns are contiguous.
void packColumns(const float *b, ptrdiff_t colStride, int64_t k, int cols, int width, float *panel) {
  transpose(b, colStride, panel, width, cols, k);
  for (int64_t row = 0; row < k && cols < width; ++row)
    std::fill(panel + row * width + cols, panel + (row + 1) * width, 0.0f);
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

}  // namespace popart::cpu
