// The integer product of register tiles: INT16 by INT16 in INT32, modulo 2^32, two terms at a time (pmaddwd, vpdpwssd).
// Sums of integers have one result in any order, so tiles and blocks never change a bit.
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart::cpu {

constexpr int kMostIntegerRows = 12;
constexpr int kMostIntegerColumns = 32;  // of a panel

// out[m, n] (+)= sum over k of a[m, k] b[k, n] for one panel of columns and `rows` rows; `pairs` pairs of k.
struct IntegerTile {
  const int16_t *a = nullptr;  // a row holds 2 `pairs` numbers
  ptrdiff_t aStride = 0;
  const int16_t *b = nullptr;  // packed: by pair of k, the pairs of all columns of the panel
  int64_t pairs = 0;
  int32_t *out = nullptr;
  ptrdiff_t outStride = 0;
  int64_t rows = 0, columns = 0;  // written; at most those of a tile and a panel
  bool adds = false;              // to what `out` holds
};

// Elements of type T to INT16, which holds them: one table entry per type.
template <class T>
struct IntegerSource {
  // `count` numbers of a row of A.
  void (*widen)(const T *from, int64_t count, int16_t *to);
  // `columns` columns of rows k and k + 1 of B side by side, zeros up to the panel's width; `second` null: zeros.
  void (*packPair)(const T *first, const T *second, int64_t columns, int16_t *to);
};

struct IntegerKernels {
  int rows, panelColumns;
  void (*multiply)(const IntegerTile &tile);
  IntegerSource<int8_t> int8;
  IntegerSource<uint8_t> uint8;
  IntegerSource<int16_t> int16;
};

// For the best instruction set of this processor among those compiled in. Constant for the process.
const IntegerKernels &integerKernels();

}  // namespace popart::cpu
