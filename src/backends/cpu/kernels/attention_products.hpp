// Pieces that both passes of attention are made of: products of a few rows, rows copied from and to strided memory.
#pragma once
#include "backends/cpu/kernels/attention.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart::cpu {

// A few rows of the left operand, at most a tile: as AMode says.
struct LeftRows {
  const float *a;
  ptrdiff_t stride;
  AMode mode;
  int rows;
};
// The right operand: `k` rows `stride` apart, panels `panelStride` apart.
struct RightPanels {
  const float *b;
  ptrdiff_t stride, panelStride;
  int64_t k;
};
enum class Sum : uint8_t { kNew, kAdd };

// c = a . b, or c += a . b, of `columns` columns; whole panels of c are written.
void product(const LeftRows &a, const RightPanels &b, float *c, ptrdiff_t cStride, int64_t columns, Sum sum) noexcept;

// One matrix of a stack of FLOAT or 16-bit numbers, which begins at element `offset` of memory.
template <class T>
struct StridedMatrix {
  T *memory;  // const void or void
  ptrdiff_t offset;
  const MatrixStack &strides;
  DataType type;
};

// to = scale * rows [first, first + rows) of m, `columns` long, dense rows `toStride` apart; the rest of the row is
// zero.
void readRows(const StridedMatrix<const void> &m, int64_t first, int64_t rows, int64_t columns, float scale, float *to,
              ptrdiff_t toStride) noexcept;
// Rows [first, first + rows) of m = scale * from. Leaves `from` in any state.
void writeRows(float *from, ptrdiff_t fromStride, float scale, const StridedMatrix<void> &m, int64_t first,
               int64_t rows, int64_t columns) noexcept;
// packPanels (pack.hpp) of columns [first, first + columns) of m, which has `rows` rows.
void packRight(const StridedMatrix<const void> &m, int64_t rows, int64_t first, int64_t columns,
               float *packed) noexcept;

// Elements from the first matrix of a stack to that of `batch`.
ptrdiff_t batchOffset(const AttentionShape &shape, const MatrixStack &m, int64_t batch) noexcept;

}  // namespace popart::cpu
