// The product of 8-bit integers in register tiles: UINT8 by INT8 in INT32, modulo 2^32, four terms at a time (vpdpbusd
// where the processor has it, products of 16-bit halves elsewhere: no sum saturates). Other signs and zero points are
// up to terms that a tile adds: with a = a' - p and b = b' - q,
//
//   sum of a b = sum of a' b' - p (sum of b') - q (sum of a') + terms p q.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace popart::cpu {

constexpr int kMostQuadRows = 12;
constexpr int kMostQuadColumns = 32;  // columns per panel
constexpr uint8_t kFlip = 0x80;       // xor: INT8 to UINT8 by adding 128, UINT8 to INT8 by subtracting 128

// Adds row[m] column[n] to every result; no term if null. `column` has a number for every column of the panel.
struct QuadTerm {
  const int32_t *row = nullptr, *column = nullptr;
};

// out[m, n] (+)= sum over k of a[m, k] b[k, n] + both terms, for one panel of columns and `rows` rows.
struct QuadTile {
  const uint8_t *a = nullptr;  // a row holds 4 `quads` numbers
  ptrdiff_t aStride = 0;
  const int8_t *b = nullptr;  // packed: for each quad of k, the quads of all columns of the panel
  int64_t quads = 0;
  int32_t *out = nullptr;
  ptrdiff_t outStride = 0;
  int64_t rows = 0, columns = 0;  // to be written; at most those of a tile and a panel
  bool adds = false;              // whether results are added to `out`
  QuadTerm terms[2];
};

// `count` contiguous numbers; null: `count` padding values.
struct QuadRun {
  const uint8_t *from = nullptr;
  int64_t count = 0;
};
// Bytes that copyRuns may write after a row, and bytes of padding after the memory it reads.
constexpr int64_t kQuadSlack = 64;

// The window of one place in a convolution with one channel per group: out[c] = sum over taps of taps[t][c] b[t, c],
// plus the terms of zero points. Taps outside the image, and those that fill the last quad, point to padding values:
// `padding`, flipped.
struct QuadChannels {
  const uint8_t *const *taps = nullptr;  // 4 `quads` pointers
  int64_t quads = 0, channels = 0;
  const uint8_t *end = nullptr;  // end of the image's memory
  uint8_t flip = 0;
  int32_t padding = 0;         // the zero point of the values at taps, with its offset
  const uint8_t *b = nullptr;  // panels; each begins with the sums of its columns (layouts/conv_quads.hpp)
  ptrdiff_t panelStride = 0;
  const int32_t *rightZeros = nullptr;  // by channel, as many as panels have; null: zeros
  int32_t *out = nullptr;               // as many as panels have
};

struct QuadKernels {
  int rows, panelColumns;  // per tile, per panel
  void (*multiply)(const QuadTile &tile);
  // Copies `count` numbers of a row of A, each xored with `flip`, and zeros up to a whole quad; returns their sum.
  int32_t (*copyRow)(const uint8_t *from, int64_t count, uint8_t flip, uint8_t *to);
  // Packs one quad of a panel of B: `columns` numbers of each of `rows` (at most 4) rows, `stride` apart, each xored
  // with `flip`; zeros up to a whole quad and panel.
  void (*packQuad)(const uint8_t *from, ptrdiff_t stride, int64_t rows, int64_t columns, uint8_t flip, int8_t *to);
  // Copies runs to contiguous memory, each number xored with `flip`. Reads nothing from `end` on.
  void (*copyRuns)(std::span<const QuadRun> runs, uint8_t padding, uint8_t flip, const uint8_t *end, uint8_t *to);
  void (*multiplyChannels)(const QuadChannels &place);
};

// For the best compiled instruction set that this processor has. Constant for the process.
const QuadKernels &quadKernels();
// All kernels that this processor can run with the instruction set that Highway chooses now, the best first; for tests.
std::span<const QuadKernels *const> quadKernelChoices();

}  // namespace popart::cpu
