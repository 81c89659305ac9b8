// The tiles and transforms of Winograd's algorithm F(2 x 2, 3 x 3): Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015. Every transform is a fixed order of additions and factors of 1/2, the same for every
// instruction set; vectors contain neighbouring channels or columns.
//
//   inputs   4 x 4 -> 16   (a - c, b + c, c - b, b - d) along lines, then along columns
//   weights  3 x 3 -> 16   (a, (a + c + b) / 2, (a + c - b) / 2, c)
//   sums     16 -> 2 x 2   (a + (b + c), (b - c) - d)
// and those of the weight gradient, which are the transposed ones:
//   gradients of outputs   2 x 2 -> 16   (a, a + b, a - b, -b)
//   sums                   16 -> 3 x 3   (a + (b + c) / 2, (b - c) / 2, (b + c) / 2 + d)
#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/kernels/conv_window.hpp"

namespace popart::cpu {

constexpr int64_t kWinogradMatrices = 16;

// Columns of the 4 x 4 matrices: all, the first and the last, the two between.
enum class WinogradPart : uint8_t { kAll, kOuter, kInner };
constexpr int64_t matricesOf(WinogradPart part) {
  return part == WinogradPart::kAll ? kWinogradMatrices : kWinogradMatrices / 2;
}
// The number among all matrices of a part's matrix i, line by line.
constexpr int64_t matrixOf(WinogradPart part, int64_t i) {
  if (part == WinogradPart::kAll) return i;
  return i / 2 * 4 + (part == WinogradPart::kOuter ? i % 2 * 3 : 1 + i % 2);
}

// Tiles of 2 x 2 outputs, numbered line by line in an image, and image by image.
struct WinogradTiles {
  WinogradTiles() = default;
  explicit WinogradTiles(const WindowShape &window);
  int64_t count() const { return images * lines * columns; }
  // Whether the algorithm computes these windows for `columns` outputs, and its fewer multiplications outweigh its
  // transforms. Depends on the shape of one image alone.
  static bool fits(const WindowShape &window, int64_t columns);
  // The pixels of `x` that a tile reads, line by line; `zeros` for those outside of the image.
  std::array<const float *, 16> inputs(int64_t tile, const float *x, const float *zeros) const;
  // The pixels of `y`, of pixels `stride` floats apart, that a tile writes.
  std::array<const float *, 4> outputs(int64_t tile, const float *y, int64_t stride, const float *zeros) const;

  WindowShape window;
  int64_t images = 0, lines = 0, columns = 0;  // lines and columns of tiles in an image
};

// In all transforms, result i of the 16 is written, or read, i * plane floats after the first.

// A tile's 16 pixels of `channels` channels.
void transformInputs(const std::array<const float *, 16> &pixels, int64_t channels, float *v, int64_t plane) noexcept;
// `count` floats of each of nine weights, a multiple of half a panel; result i is matrix matrixOf(part, i).
void transformWeights(WinogradPart part, const std::array<const float *, 9> &taps, int64_t count, float *u,
                      int64_t plane) noexcept;
// Sums of `tiles` tiles, `stride` floats apart, as two lines of 2 * tiles pixels of `columns` floats, a multiple of
// half a panel.
void transformSums(const float *m, int64_t stride, int64_t plane, int64_t tiles, int64_t columns, float *y) noexcept;
// A tile's four gradients of outputs, in panels: columns [0, count) of the pixels, panels `panelStride` floats apart.
// Lanes of the last panel after `count` become zero.
void transformGradients(const std::array<const float *, 4> &pixels, int64_t count, float *z, int64_t plane,
                        int64_t panelStride) noexcept;
// `rows` rows of a panel of sums, `stride` floats apart, as nine weights: w[t * tap + row * width].
void transformWeightSums(const float *n, int64_t stride, int64_t plane, int64_t rows, float *w, int64_t tap) noexcept;

}  // namespace popart::cpu
