// See matrices.hpp.
#include "backends/cpu/matrices.hpp"

#include "ops/fused/operand_view.hpp"
#include "ops/shape/strided_view.hpp"

namespace popart::cpu {
namespace {

Matrix matrix(const Shape &sizes, const Shape &strides) {
  const size_t row = sizes.size() - 2;
  return {Shape(sizes.begin(), sizes.end() - 2),     sizes[row],   sizes[row + 1],
          Shape(strides.begin(), strides.end() - 2), strides[row], strides[row + 1]};
}

}  // namespace

Matrix matrixOf(const Op &op, const char *name, const Shape &shape) {
  const Shape plain = ops::stridesInOrder(shape);
  if (!op.hasAttr(name)) return matrix(shape, plain);
  const auto &perm = op.attrInts(name);
  Shape sizes(shape.size()), strides(shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    sizes[d] = shape[static_cast<size_t>(perm[d])], strides[d] = plain[static_cast<size_t>(perm[d])];
  return matrix(sizes, strides);
}

Matrix matrixOf(const Op &op, const char *perm, const char *view, const Shape &shape) {
  if (!op.hasAttr(view)) return matrixOf(op, perm, shape);
  const ops::OperandView part = ops::viewOf(op, view);
  Matrix m = matrix(part.sizes, part.strides);
  m.offset = part.offset;
  return m;
}

Matrix resultOf(const Op &op, const char *name, const Shape &shape) {
  const Shape plain = ops::stridesInOrder(shape);
  if (!op.hasAttr(name)) return matrix(shape, plain);
  const auto &perm = op.attrInts(name);
  Shape sizes(shape.size()), strides(shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    sizes[static_cast<size_t>(perm[d])] = shape[d], strides[static_cast<size_t>(perm[d])] = plain[d];
  return matrix(sizes, strides);
}

std::array<ptrdiff_t, kMaxBatchRank> batchStrides(const Matrix &m, const Shape &out) {
  std::array<ptrdiff_t, kMaxBatchRank> strides{};
  for (size_t i = 0; i < m.batch.size(); ++i) {
    const size_t at = m.batch.size() - 1 - i;
    strides[kMaxBatchRank - 1 - i] = m.batch[at] == 1 && out[out.size() - 1 - i] != 1 ? 0 : m.batchStride[at];
  }
  return strides;
}

}  // namespace popart::cpu
