// Functions that both passes of attention use: products of a few rows, copies of rows from and to strided memory.
#pragma once
#include "backends/cpu/kernels/attention.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart::cpu {

// A few rows of the left operand, at most a tile; AMode says how they are read.
struct LeftRows {
  const float *a;
  ptrdiff_t stride;
  AMode mode;
  int rows;
};
// The right operand: `k` rows with the given stride, panels `panelStride` apart.
struct RightPanels {
  const float *b;
  ptrdiff_t stride, panelStride;
  int64_t k;
};
enum class Sum : uint8_t { kNew, kAdd };

// c = a . b, or c += a . b, for `columns` columns; always writes whole panels of c.
void product(const LeftRows &a, const RightPanels &b, float *c, ptrdiff_t cStride, int64_t columns, Sum sum) noexcept;

// One matrix of a stack of FLOAT or 16-bit numbers, starting at element `offset` of memory.
template <class T>
struct StridedMatrix {
  T *memory;  // const void or void
  ptrdiff_t offset;
  const MatrixStack &strides;
  DataType type;
};

// to = scale * rows [first, first + rows) of m. Copies `columns` elements per row; destination rows are `toStride`
// apart, and their remaining elements become zero.
void readRows(const StridedMatrix<const void> &m, int64_t first, int64_t rows, int64_t columns, float scale, float *to,
              ptrdiff_t toStride) noexcept;
// Rows [first, first + rows) of m = scale * from. The contents of `from` are undefined afterwards.
void writeRows(float *from, ptrdiff_t fromStride, float scale, const StridedMatrix<void> &m, int64_t first,
               int64_t rows, int64_t columns) noexcept;
// packPanels (pack.hpp) of columns [first, first + columns) of m, which has `rows` rows.
void packRight(const StridedMatrix<const void> &m, int64_t rows, int64_t first, int64_t columns,
               float *packed) noexcept;

// Distance in elements from the first matrix of a stack to the matrix of `batch`.
ptrdiff_t batchOffset(const AttentionShape &shape, const MatrixStack &m, int64_t batch) noexcept;

}  // namespace popart::cpu
