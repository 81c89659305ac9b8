#include "backends/cpu/kernels/quad_block.hpp"

#include <algorithm>
#include <array>

#include "backends/cpu/kernels/ceil_div.hpp"

namespace popart::cpu {
namespace {

constexpr std::array<uint8_t, kQuadDepth> kOnes = [] {
  std::array<uint8_t, kQuadDepth> ones{};
  ones.fill(1);
  return ones;
}();

// Rows of A in the form that tiles read: in place, or copied if they need a flip, end within a quad, or need row sums.
struct LeftRows {
  const uint8_t *a;
  ptrdiff_t stride;
};

LeftRows leftRows(const QuadBlock &block, int64_t row, int64_t count, uint8_t *copies, int32_t *rowTerms) {
  const uint8_t *from = block.a + row * block.aStride;
  if (block.flip == 0 && block.depth % 4 == 0 && !block.rightZeros) return {from, block.aStride};
  const int64_t stride = ceilDiv(block.depth, int64_t{4}) * 4;
  for (int64_t r = 0; r < count; ++r) {
    const int32_t sum = quadKernels().copyRow(from + r * block.aStride, block.depth, block.flip, copies + r * stride);
    if (block.rightZeros) rowTerms[r] = static_cast<int32_t>(block.depth) * block.leftZeros.at(row + r) - sum;
  }
  return {copies, stride};
}

}  // namespace

void multiplyRows(const QuadRows &rows) noexcept {
  const QuadKernels &kernels = quadKernels();
  for (int64_t column = 0, panel = 0; column < rows.columns; column += kernels.panelColumns, ++panel)
    for (int64_t r = 0; r < rows.rows; r += kernels.rows) {
      QuadTile tile{.a = rows.a + r * rows.aStride,
                    .aStride = rows.aStride,
                    .b = rows.b + panel * rows.panelStride,
                    .quads = rows.quads,
                    .out = rows.out + r * rows.outStride + column,
                    .outStride = rows.outStride,
                    .rows = std::min<int64_t>(kernels.rows, rows.rows - r),
                    .columns = std::min<int64_t>(kernels.panelColumns, rows.columns - column),
                    .adds = rows.adds,
                    .terms = {}};
      if (rows.leftTerms) tile.terms[0] = {rows.leftTerms + r, rows.columnSums + panel * rows.sumStride};
      if (rows.rowTerms) tile.terms[1] = {rows.rowTerms + r, rows.rightZeros + column};
      kernels.multiply(tile);
    }
}

void multiplyBlock(const QuadBlock &block, void *scratch) noexcept {
  auto *rowTerms = static_cast<int32_t *>(scratch), *negative = rowTerms + kQuadRowsAtOnce;
  auto *copies = reinterpret_cast<uint8_t *>(negative + kQuadRowsAtOnce);
  const bool hasLeft = block.columnSums && block.leftZeros.any();
  for (int64_t row = 0; row < block.rows; row += kQuadRowsAtOnce) {
    const int64_t count = std::min(kQuadRowsAtOnce, block.rows - row);
    const LeftRows left = leftRows(block, row, count, copies, rowTerms);
    for (int64_t r = 0; hasLeft && r < count; ++r) negative[r] = -block.leftZeros.at(row + r);
    multiplyRows({.a = left.a,
                  .aStride = left.stride,
                  .b = block.b,
                  .panelStride = block.panelStride,
                  .leftTerms = hasLeft ? negative : nullptr,
                  .columnSums = block.columnSums,
                  .sumStride = block.sumStride,
                  .rowTerms = block.rightZeros ? rowTerms : nullptr,
                  .rightZeros = block.rightZeros,
                  .quads = ceilDiv(block.depth, int64_t{4}),
                  .rows = count,
                  .columns = block.columns,
                  .out = block.out + row * block.outStride,
                  .outStride = block.outStride,
                  .adds = block.adds});
  }
}

void sumColumns(const int8_t *panel, int64_t depth, int32_t *sums) noexcept {
  const QuadKernels &kernels = quadKernels();
  kernels.multiply({.a = kOnes.data(),
                    .b = panel,
                    .quads = ceilDiv(depth, int64_t{4}),
                    .out = sums,
                    .rows = 1,
                    .columns = kernels.panelColumns,
                    .terms = {}});
}

}  // namespace popart::cpu
