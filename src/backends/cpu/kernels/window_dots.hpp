// Sums over windows for a few output channels: a vector contains neighbouring elements of a window instead of output
// channels, most of which would be padding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart::cpu {

// The number of output channels up to which dot products are faster than register tiles.
constexpr int kMostDotColumns = 4;
// The number of neighbouring elements of a window from which they are.
constexpr int64_t kFewestDotElements = 16;

// out[row * columns + c] = sum over blocks r, then k, of a[row * aStride + blocks[r].a + k] * w[c][r * k + k]
struct WindowDots {
  const float *a;
  ptrdiff_t aStride;
  int64_t rows;
  const BlockOffset *blocks;
  int64_t blockCount, k;  // k: of a block
  const float *w;         // columns follow each other, blockCount * k weights each
  int columns;            // at most kMostDotColumns
  float *out;
};

// A sum has one chain for each lane of a vector, over the blocks in ascending order; then the lanes are added. It does
// not depend on the other rows and columns.
void windowDots(const WindowDots &dots) noexcept;

}  // namespace popart::cpu
