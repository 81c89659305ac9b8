// Operands of products: stacks of matrices in plain memory, with their dimensions in any order.
#pragma once
#include <array>
#include <cstddef>

#include <popart/op.hpp>

#include "backends/cpu/kernels/gemm.hpp"

namespace popart::cpu {

// Strides in elements.
struct Matrix {
  Shape batch;  // leading dimensions
  int64_t rows, columns;
  Shape batchStride;
  int64_t rowStride, columnStride;
  int64_t offset = 0;  // of the first element
};

// Memory of `shape`, whose dimensions are permuted by attribute `name` of the op, if it has one: dimension i of the
// product is dimension perm[i] of the memory.
Matrix matrixOf(const Op &op, const char *name, const Shape &shape);

// Memory of which attribute `view` of the op says which elements are read, if the op has it; else as above.
Matrix matrixOf(const Op &op, const char *perm, const char *view, const Shape &shape);

// A result of shape `shape` as the product indexes it: dimension perm[i] of the product is dimension i of the result.
Matrix resultOf(const Op &op, const char *name, const Shape &shape);

// Strides of the batch of `m`, broadcast to `out`.
std::array<ptrdiff_t, kMaxBatchRank> batchStrides(const Matrix &m, const Shape &out);

}  // namespace popart::cpu
