// See attention_products.hpp.
#include "backends/cpu/kernels/attention_products.hpp"

#include <algorithm>

#include "backends/cpu/kernels/attention_rows.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/pack.hpp"
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

void readRows(const StridedMatrix<const void> &m, int64_t first, int64_t rows, int64_t columns, float scale, float *to,
              ptrdiff_t toStride) noexcept {
  const void *place = elementAt(m.memory, m.offset + first * m.strides.rowStride, m.type);
  if (isHalf(m.type)) {
    widenPanel(m.type, static_cast<const uint16_t *>(place), m.strides.rowStride, m.strides.columnStride, rows,
               static_cast<int>(columns), static_cast<int>(toStride), to);
    if (scale != 1.0f) scaleRows(to, toStride, nullptr, scale, to, toStride, rows, columns);
    return;
  }
  const auto *from = static_cast<const float *>(place);
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

void writeRows(float *from, ptrdiff_t fromStride, float scale, const StridedMatrix<void> &m, int64_t first,
               int64_t rows, int64_t columns) noexcept {
  void *place = elementAt(m.memory, m.offset + first * m.strides.rowStride, m.type);
  const ptrdiff_t rowStride = m.strides.rowStride, columnStride = m.strides.columnStride;
  if (columnStride == 1 && !isHalf(m.type))
    return scaleRows(from, fromStride, nullptr, scale, static_cast<float *>(place), rowStride, rows, columns);
  if (scale != 1.0f) scaleRows(from, fromStride, nullptr, scale, from, fromStride, rows, columns);
  if (rowStride == 1 && !isHalf(m.type))
    return transpose(from, fromStride, static_cast<float *>(place), columnStride, rows, columns);
  for (int64_t r = 0; r < rows; ++r) {
    const float *row = from + r * fromStride;
    if (columnStride == 1)
      narrow(m.type, row, columns, static_cast<uint16_t *>(elementAt(place, r * rowStride, m.type)));
    else
      for (int64_t c = 0; c < columns; ++c) setNumberAt(place, r * rowStride + c * columnStride, m.type, row[c]);
  }
}

void packRight(const StridedMatrix<const void> &m, int64_t rows, int64_t first, int64_t columns,
               float *packed) noexcept {
  const ptrdiff_t rowStride = m.strides.rowStride, columnStride = m.strides.columnStride;
  const void *from = elementAt(m.memory, m.offset + first * columnStride, m.type);
  if (!isHalf(m.type))
    return packPanels(static_cast<const float *>(from), rowStride, columnStride, rows, columns, packed);
  const int width = panelWidth();
  for (int64_t at = 0; at < columns; at += width)
    widenPanel(m.type, static_cast<const uint16_t *>(from) + at * columnStride, rowStride, columnStride, rows,
               static_cast<int>(std::min<int64_t>(width, columns - at)), width, packed + at * rows);
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
