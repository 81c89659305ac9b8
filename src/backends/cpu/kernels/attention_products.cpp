// See attention_products.hpp.
#include "backends/cpu/kernels/attention_products.hpp"

#include <algorithm>

#include "backends/cpu/kernels/attention_rows.hpp"
#include "backends/cpu/kernels/transpose.hpp"

namespace popart::cpu {

void product(const LeftRows &a, const RightPanels &b, float *c, ptrdiff_t cStride, int64_t columns, Sum sum) noexcept {
  const MicroKernels &kernels = microKernels();
  static constexpr BlockOffset kOrigin{};
  TileArgs tile;
  tile.a = a.a, tile.aStride = a.stride;
  tile.bStride = b.stride, tile.bPanelStride = b.panelStride;
  tile.blocks = &kOrigin, tile.blockCount = 1;
  tile.k = b.k;
  tile.inStride = tile.outStride = cStride;
  for (int64_t col = 0, panel = 0; col < columns;) {
    const MicroKernels::Choice choice = kernels.choose(a.mode, a.rows, columns - col);
    tile.b = b.b + panel * b.panelStride;
    tile.out = c + col;
    tile.in = sum == Sum::kAdd ? tile.out : nullptr;
    choice.run(tile);
    panel += choice.panels;
    col += static_cast<int64_t>(choice.panels) * kernels.panelWidth;
  }
}

void readRows(StridedMatrix<const float> m, int64_t first, int64_t rows, int64_t columns, float scale, float *to,
              ptrdiff_t toStride) noexcept {
  const float *from = m.p + first * m.strides.rowStride;
  if (m.strides.columnStride == 1) {
    scaleRows(from, m.strides.rowStride, nullptr, scale, to, toStride, rows, columns);
  } else if (m.strides.rowStride == 1) {
    transpose(from, m.strides.columnStride, to, toStride, columns, rows);
    if (scale != 1.0f) scaleRows(to, toStride, nullptr, scale, to, toStride, rows, columns);
  } else {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        to[r * toStride + c] = scale * from[r * m.strides.rowStride + c * m.strides.columnStride];
  }
  for (int64_t r = 0; r < rows && columns < toStride; ++r)
    std::fill(to + r * toStride + columns, to + (r + 1) * toStride, 0.0f);
}

void writeRows(float *from, ptrdiff_t fromStride, float scale, StridedMatrix<float> m, int64_t first, int64_t rows,
               int64_t columns) noexcept {
  float *to = m.p + first * m.strides.rowStride;
  if (m.strides.columnStride == 1)
    return scaleRows(from, fromStride, nullptr, scale, to, m.strides.rowStride, rows, columns);
  if (scale != 1.0f) scaleRows(from, fromStride, nullptr, scale, from, fromStride, rows, columns);
  if (m.strides.rowStride == 1) return transpose(from, fromStride, to, m.strides.columnStride, rows, columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[r * m.strides.rowStride + c * m.strides.columnStride] = from[r * fromStride + c];
}

ptrdiff_t batchOffset(const AttentionShape &shape, const MatrixStack &m, int64_t batch) noexcept {
  ptrdiff_t offset = 0;
  for (size_t i = kMaxBatchRank; i-- > 0;) {
    offset += batch % shape.batch[i] * m.batchStride[i];
    batch /= shape.batch[i];
  }
  return offset;
}

}  // namespace popart::cpu
