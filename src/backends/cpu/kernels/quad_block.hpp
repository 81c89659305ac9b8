// Blocks of products of 8-bit integers: rows in plain memory times packed panels, computed with the tiles of
// quad_product.hpp, with terms that correct for signs and zero points.
#pragma once
#include "backends/cpu/kernels/quad_product.hpp"

namespace popart::cpu {

constexpr int64_t kQuadDepth = 1024;     // depth of a block; a multiple of 4
constexpr int64_t kQuadRowsAtOnce = 48;  // rows of A that are processed together; a multiple of every tile's rows
constexpr int64_t kQuadBlockScratch = kQuadRowsAtOnce * (kQuadDepth + 2 * int64_t{sizeof(int32_t)});

// Values to subtract from the rows of A or the columns of B that tiles multiply, which may be offset by 128.
struct QuadZeros {
  const void *data = nullptr;             // zero points of the operand; null: zeros
  bool isSigned = false, isEach = false;  // INT8 or UINT8; one per row or column, or one for all
  int32_t moved = 0;                      // offset: 128 for INT8 as UINT8, -128 for UINT8 as INT8

  bool any() const { return data || moved != 0; }
  int32_t at(int64_t i) const {
    if (!data) return moved;
    const int64_t place = isEach ? i : 0;
    return moved + (isSigned ? int32_t{static_cast<const int8_t *>(data)[place]}
                             : int32_t{static_cast<const uint8_t *>(data)[place]});
  }
  // The values from row or column `i` on.
  QuadZeros from(int64_t i) const {
    QuadZeros z = *this;
    if (data && isEach) z.data = static_cast<const uint8_t *>(data) + i;
    return z;
  }
};

// How an operand is converted to the sign that tiles require: the bits to xor, and the offset that this adds.
struct QuadMove {
  uint8_t flip = 0;
  int32_t moved = 0;
};
constexpr QuadMove leftMove(bool isSigned) { return isSigned ? QuadMove{kFlip, 128} : QuadMove{}; }
constexpr QuadMove rightMove(bool isSigned) { return isSigned ? QuadMove{} : QuadMove{kFlip, -128}; }

// out (+)= (A - leftZeros) (B - rightZeros) over one block of k.
struct QuadBlock {
  const uint8_t *a = nullptr;  // UINT8 after xor with `flip`
  ptrdiff_t aStride = 0;
  uint8_t flip = 0;
  QuadZeros leftZeros;
  const int8_t *b = nullptr;  // quads of the block in the first panel; the next panel follows after `panelStride` bytes
  ptrdiff_t panelStride = 0;
  // Column sums of B, used only with leftZeros; the next panel's follow after `sumStride` numbers. Null: this block
  // does not add the term.
  const int32_t *columnSums = nullptr;
  ptrdiff_t sumStride = 0;
  const int32_t *rightZeros = nullptr;  // by column, as many as panels have; null: zeros
  int64_t depth = 0, rows = 0, columns = 0;
  int32_t *out = nullptr;
  ptrdiff_t outStride = 0;
  bool adds = false;  // whether results are added to `out`
};

// Rows that tiles read in place, times panels.
struct QuadRows {
  const uint8_t *a = nullptr;
  ptrdiff_t aStride = 0;
  const int8_t *b = nullptr;
  ptrdiff_t panelStride = 0;
  const int32_t *leftTerms = nullptr, *columnSums = nullptr;  // by row, and by column; null: no such term
  ptrdiff_t sumStride = 0;                                    // of columnSums, as in QuadBlock
  const int32_t *rowTerms = nullptr, *rightZeros = nullptr;   // by row, and by column; null: no such term
  int64_t quads = 0, rows = 0, columns = 0;
  int32_t *out = nullptr;
  ptrdiff_t outStride = 0;
  bool adds = false;
};
void multiplyRows(const QuadRows &rows) noexcept;

// `scratch`: kQuadBlockScratch bytes. The depth is at most kQuadDepth.
void multiplyBlock(const QuadBlock &block, void *scratch) noexcept;

// Sums of the columns of one packed panel, for all its columns. `depth` is at most kQuadDepth.
void sumColumns(const int8_t *panel, int64_t depth, int32_t *sums) noexcept;

}  // namespace popart::cpu
