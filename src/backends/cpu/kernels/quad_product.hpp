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
constexpr int kMostQuadColumns = 32;  // of a panel
constexpr uint8_t kFlip = 0x80;       // xor: INT8 to UINT8 by adding 128, UINT8 to INT8 by subtracting 128

// row[m] column[n], added to every result; none when null. `column` has a number for every column of the panel.
struct QuadTerm {
  const int32_t *row = nullptr, *column = nullptr;
};

// out[m, n] (+)= sum over k of a[m, k] b[k, n] + both terms, for one panel of columns and `rows` rows.
struct QuadTile {
  const uint8_t *a = nullptr;  // a row holds 4 `quads` numbers
  ptrdiff_t aStride = 0;
  const int8_t *b = nullptr;  // packed: by quad of k, the quads of all columns of the panel
  int64_t quads = 0;
  int32_t *out = nullptr;
  ptrdiff_t outStride = 0;
  int64_t rows = 0, columns = 0;  // written; at most those of a tile and a panel
  bool adds = false;              // to what `out` holds
  QuadTerm terms[2];
};

// `count` numbers side by side; null: as many paddings.
struct QuadRun {
  const uint8_t *from = nullptr;
  int64_t count = 0;
};
constexpr int64_t kQuadSlack = 64;  // bytes that copyRuns may write behind a row, and of padding behind what is read

// Windows of one place in convolutions of single channels: out[c] = sum over taps of taps[t][c] b[t, c], and the terms
// of zero points. Taps outside of the image, and those up to a whole quad, point to paddings: `padding`, flipped.
struct QuadChannels {
  const uint8_t *const *taps = nullptr;  // 4 `quads`
  int64_t quads = 0, channels = 0;
  const uint8_t *end = nullptr;  // of the image's memory
  uint8_t flip = 0;
  int32_t padding = 0;         // the zero point of what taps point to, moved
  const uint8_t *b = nullptr;  // panels, each with the sums of its columns in front (layouts/conv_quads.hpp)
  ptrdiff_t panelStride = 0;
  const int32_t *rightZeros = nullptr;  // by channel, as many as panels have; null: zeros
  int32_t *out = nullptr;               // as many as panels have
};

struct QuadKernels {
  int rows, panelColumns;  // of a tile and a panel
  void (*multiply)(const QuadTile &tile);
  // `count` numbers of a row of A, each with `flip` xored, zeros up to a whole quad; gives their sum.
  int32_t (*copyRow)(const uint8_t *from, int64_t count, uint8_t flip, uint8_t *to);
  // One quad of a panel of B from `rows` (at most 4) rows, `stride` apart, of `columns` numbers, each with `flip`
  // xored; zeros up to a whole quad and panel.
  void (*packQuad)(const uint8_t *from, ptrdiff_t stride, int64_t rows, int64_t columns, uint8_t flip, int8_t *to);
  // Runs, one behind the other, each number with `flip` xored. Nothing is read from `end` on.
  void (*copyRuns)(std::span<const QuadRun> runs, uint8_t padding, uint8_t flip, const uint8_t *end, uint8_t *to);
  void (*multiplyChannels)(const QuadChannels &place);
};

// For the best instruction set of this processor among those compiled in. Constant for the process.
const QuadKernels &quadKernels();
// All that this processor runs with the instruction set that Highway chooses now, the best first: for tests.
std::span<const QuadKernels *const> quadKernelChoices();

}  // namespace popart::cpu
