// Products with a right operand of packed numbers of 2, 4 or 8 bits:
//   B[k, n] = (number[k, n] - zero[k / block, n]) scale[k / block, n]
// with rounding after each of the two steps. Numbers become floats in registers, or panel by panel for the register
// tiles.
//
// Invariant: every element of a result is one chain of multiply-adds in ascending order of k that starts from zero, as
// in kernels/gemm.hpp. The number of rows or panels that are computed at once changes no bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// B in panels of panelWidth columns; columns after the last one are zeros.
struct PackedPanels {
  int bits = 4;
  int64_t depth = 0;                   // rows of B: k
  int64_t block = 0;                   // rows with the same scale: a multiple of kNumbersTogether, or at least `depth`
  int64_t words = 0;                   // words per column
  int64_t blocks = 0;                  // blocks per column
  const uint32_t *numbers = nullptr;   // [panel][words][panelWidth]; the first number of a word is in its lowest bits
  const float *scales = nullptr;       // [panel][blocks][panelWidth]
  const float *zeros = nullptr;        // the same, or
  const uint8_t *byteZeros = nullptr;  // the same, or
  float middle = 0;                    // the zero point of all blocks, used if both are null
};
constexpr int64_t kNumbersTogether = 16;  // largest number of numbers per word

// out[m, n] = sum over k of a[m, k] B[k, n] for the columns of neighbouring panels.
struct PackedTile {
  const float *a = nullptr;  // contiguous rows aStride apart
  ptrdiff_t aStride = 0;
  int64_t rows = 0;  // 1 to PackedKernels::rows
  const PackedPanels *b = nullptr;
  int64_t panel = 0, panels = 0;  // 1 to PackedKernels::panels
  float *out = nullptr;           // rows outStride apart, panels contiguous; written over their full width
  ptrdiff_t outStride = 0;
};

struct PackedKernels {
  int64_t rows, panels;  // largest numbers of rows and panels of a tile
  int64_t panelColumns;  // as in kernels/micro_kernel.hpp
  void (*multiply)(const PackedTile &tile);
  // Converts rows [k, k + count) of a panel to floats, panelWidth per row. k is a multiple of kNumbersTogether.
  void (*unpack)(const PackedPanels &b, int64_t panel, int64_t k, int64_t count, float *to);
};
constexpr int64_t kMostPackedRows = 12, kMostPackedColumns = 64;

// The kernels for the best compiled instruction set that this processor has.
const PackedKernels &packedKernels();
// The same without the cached result, for tests.
PackedKernels dispatchPackedKernels();

}  // namespace popart::cpu
