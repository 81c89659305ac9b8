// Products with a right operand of packed numbers of 2, 4 or 8 bits:
//   B[k, n] = (number[k, n] - zero[k / block, n]) scale[k / block, n]
// rounded after each of both steps. Numbers become floats in registers, or panel by panel for the register tiles.
//
// Invariant: every element of a result is one chain of multiply-adds in ascending order of k that starts from zero, as
// those of kernels/gemm.hpp are: how many rows or panels are computed at once changes no bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// B in panels of panelWidth columns, the columns behind the last one zeros.
struct PackedPanels {
  int bits = 4;
  int64_t depth = 0;                   // rows of B: k
  int64_t block = 0;                   // rows with one scale: a multiple of kNumbersTogether, or at least `depth`
  int64_t words = 0;                   // of a column
  int64_t blocks = 0;                  // of a column
  const uint32_t *numbers = nullptr;   // [panel][words][panelWidth]; the first number of a word is in its lowest bits
  const float *scales = nullptr;       // [panel][blocks][panelWidth]
  const float *zeros = nullptr;        // the same, or
  const uint8_t *byteZeros = nullptr;  // the same, or
  float middle = 0;                    // the zero point of all blocks
};
constexpr int64_t kNumbersTogether = 16;  // of a word, at most

// out[m, n] = sum over k of a[m, k] B[k, n] for the columns of neighbouring panels.
struct PackedTile {
  const float *a = nullptr;  // contiguous rows aStride apart
  ptrdiff_t aStride = 0;
  int64_t rows = 0;  // 1 to PackedKernels::rows
  const PackedPanels *b = nullptr;
  int64_t panel = 0, panels = 0;  // 1 to PackedKernels::panels
  float *out = nullptr;           // rows outStride apart, panels side by side; written over their full width
  ptrdiff_t outStride = 0;
};

struct PackedKernels {
  int64_t rows, panels;  // of a tile, at most
  int64_t panelColumns;  // as those of kernels/micro_kernel.hpp
  void (*multiply)(const PackedTile &tile);
  // Rows [k, k + count) of a panel as floats, panelWidth for each. k is a multiple of kNumbersTogether.
  void (*unpack)(const PackedPanels &b, int64_t panel, int64_t k, int64_t count, float *to);
};
constexpr int64_t kMostPackedRows = 12, kMostPackedColumns = 64;

// Those of the best instruction set of this processor among those compiled in.
const PackedKernels &packedKernels();
// The same, looked up anew: for tests.
PackedKernels dispatchPackedKernels();

}  // namespace popart::cpu
