// Transposition in register blocks, 4 x 4, 8 x 8 or 16 x 16 by the size of an element, inside tiles that fit the first
// level cache; edges go element by element, blocks of bytes overlap there. The shuffles are part of baseline x86-64, so
// no run-time dispatch is needed; other machines use the plain loop.
#include "backends/cpu/kernels/transpose.hpp"

#include <algorithm>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace popart::cpu {
namespace {

constexpr int64_t kTile = 64;

// to[r * toStride + c] = from[c * fromStride + r] for a 4 x 4 block.
void transposeFour(const float *from, ptrdiff_t fromStride, float *to, ptrdiff_t toStride) {
#if defined(__SSE2__)
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

// The same for 8 x 8: pairs, fours and whole rows of eight columns come together.
void transposeEight(const uint16_t *from, ptrdiff_t fromStride, uint16_t *to, ptrdiff_t toStride) {
#if defined(__SSE2__)
  __m128i rows[8], pairs[8], fours[8];
  for (int i = 0; i < 8; ++i) rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i * fromStride));
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm_unpacklo_epi16(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm_unpackhi_epi16(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int half = 0; half < 2; ++half) {
      fours[i + 2 * half] = _mm_unpacklo_epi32(pairs[i + half], pairs[i + half + 2]);
      fours[i + 2 * half + 1] = _mm_unpackhi_epi32(pairs[i + half], pairs[i + half + 2]);
    }
  for (int i = 0; i < 4; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + 2 * i * toStride), _mm_unpacklo_epi64(fours[i], fours[i + 4]));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + (2 * i + 1) * toStride),
                     _mm_unpackhi_epi64(fours[i], fours[i + 4]));
  }
#else
  for (int r = 0; r < 8; ++r) {
    for (int c = 0; c < 8; ++c) to[r * toStride + c] = from[c * fromStride + r];
  }
#endif
}

constexpr int64_t kByteRows = 16;

// The same of a 16 x 16 block: each pass interleaves the first half of the rows with the second, which turns the bits
// of an element's place (row, column) round by one.
void transposeBlock(const uint8_t *from, ptrdiff_t fromStride, uint8_t *to, ptrdiff_t toStride) {
#if defined(__SSE2__)
  __m128i rows[kByteRows], next[kByteRows];
  for (int r = 0; r < kByteRows; ++r)
    rows[r] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + r * fromStride));
  const auto interleave = [](const __m128i *a, __m128i *b) {
    for (int r = 0; r < kByteRows / 2; ++r) {
      b[2 * r] = _mm_unpacklo_epi8(a[r], a[r + kByteRows / 2]);
      b[2 * r + 1] = _mm_unpackhi_epi8(a[r], a[r + kByteRows / 2]);
    }
  };
  interleave(rows, next), interleave(next, rows), interleave(rows, next), interleave(next, rows);
  for (int r = 0; r < kByteRows; ++r) _mm_storeu_si128(reinterpret_cast<__m128i *>(to + r * toStride), rows[r]);
#else
  for (int r = 0; r < kByteRows; ++r) {
    for (int c = 0; c < kByteRows; ++c) to[r * toStride + c] = from[c * fromStride + r];
  }
#endif
}

template <int kBlock, class T, class Block>
void transposeBlocks(const T *x, ptrdiff_t xStride, T *y, ptrdiff_t yStride, int64_t rows, int64_t cols,
                     Block &&block) {
  const int64_t wholeRows = rows - rows % kBlock, wholeCols = cols - cols % kBlock;
  for (int64_t tile = 0; tile < wholeCols; tile += kTile) {
    const int64_t end = std::min(wholeCols, tile + kTile);
    for (int64_t r = 0; r < wholeRows; r += kBlock) {
      for (int64_t c = tile; c < end; c += kBlock) block(x + r * xStride + c, xStride, y + c * yStride + r, yStride);
    }
  }
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = c < wholeCols ? wholeRows : 0; r < rows; ++r) y[c * yStride + r] = x[r * xStride + c];
  }
}

}  // namespace

void transpose(const float *x, ptrdiff_t xStride, float *y, ptrdiff_t yStride, int64_t rows, int64_t cols) noexcept {
  transposeBlocks<4>(x, xStride, y, yStride, rows, cols, transposeFour);
}

void transpose(const uint16_t *x, ptrdiff_t xStride, uint16_t *y, ptrdiff_t yStride, int64_t rows,
               int64_t cols) noexcept {
  transposeBlocks<8>(x, xStride, y, yStride, rows, cols, transposeEight);
}

void transpose(const uint8_t *x, ptrdiff_t xStride, uint8_t *y, ptrdiff_t yStride, int64_t rows,
               int64_t cols) noexcept {
  if (rows < kByteRows || cols < kByteRows) {
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t r = 0; r < rows; ++r) y[c * yStride + r] = x[r * xStride + c];
    return;
  }
  for (int64_t column = 0; column < cols; column += kByteRows)
    for (int64_t row = 0; row < rows; row += kByteRows) {
      const int64_t r = std::min(row, rows - kByteRows), c = std::min(column, cols - kByteRows);
      transposeBlock(x + r * xStride + c, xStride, y + c * yStride + r, yStride);
    }
}

}  // namespace popart::cpu
