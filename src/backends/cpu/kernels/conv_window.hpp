// The windows of a convolution over a channels-last image as evenly spaced rows of memory. A place is one output pixel.
//
// Window of output place o, tap t: input position o * stride + t * dilation - low, per dimension. Where windows leave
// the image, the rows they touch are copied once into a zero-padded strip, so that the register tiles need no bounds
// checks; so they are where the rows of a tile would compete for the same lines of the cache. Otherwise the image is
// read in place. Invariant: every address that a chunk's windows cover is readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/cpu/kernels/conv_shape.hpp"

namespace popart::cpu {

class RowProgram;

struct WindowShape {
  int64_t n = 1;
  Spatial in = {1, 1, 1};
  Spatial out = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial dilation = {1, 1, 1};
  Spatial taps = {1, 1, 1};
  Spatial low = {0, 0, 0};  // may be negative: the first windows start inside the image
  int64_t channels = 1;     // per group
  int64_t pixelStride = 1;  // floats between neighbouring pixels: the channels of all groups

  bool operator==(const WindowShape &) const = default;
  // Whether all windows are inside the image.
  bool fits() const;
  // Input positions that the windows of `count` neighbouring outputs of dimension d span.
  int64_t extent(size_t d, int64_t count) const { return (count - 1) * stride[d] + dilation[d] * (taps[d] - 1) + 1; }
};

// A zero-padded copy of all images, group by group, for kernels whose tasks would otherwise copy the same strips
// repeatedly.
class PaddedImages {
 public:
  PaddedImages() = default;
  PaddedImages(const WindowShape &shape, int64_t groups);
  // The windows of one group over the copy; all are inside it.
  const WindowShape &window() const { return padded_; }
  int64_t rows() const { return groups_ * padded_.n * padded_.in[0] * padded_.in[1]; }
  int64_t rowFloats() const { return padded_.in[2] * padded_.channels; }
  // Offset of a group's first image, in floats.
  int64_t groupOffset(int64_t group) const { return group * (rows() / groups_) * rowFloats(); }
  // Writes rows [begin, end) of the copy.
  void copyRows(const float *x, int64_t begin, int64_t end, float *copy) const noexcept;
  // The same for 16-bit numbers, which become floats.
  void widenRows(DataType type, const uint16_t *x, int64_t begin, int64_t end, float *copy) const noexcept;
  // The same for pairs: image i of the shape consists of pairs of the images 2 i and 2 i + 1. There are `images` images
  // of BFLOAT16 numbers; images after the last one count as zeros.
  void pairRows(const uint16_t *x, int64_t images, int64_t begin, int64_t end, float *copy) const noexcept;

 private:
  // f(address of row r of the copy, numbers from the first to its input row or nullopt)
  template <class F>
  void forRows(int64_t begin, int64_t end, F &&f) const noexcept;
  WindowShape shape_, padded_;
  int64_t groups_ = 1;
};

// A piece of the outputs: `lines` output rows from `line` on, `pixels` places from `pixel` on, at depth `depth`, of
// `images` images from `image` on. A piece of several images has all lines.
struct WindowChunk {
  int64_t image, images, depth, line, lines, pixel, pixels;
  int64_t places() const { return images * lines * pixels; }
};

// The largest size of a chunk; each dimension is at least 1.
struct ChunkSize {
  int64_t images = 1, lines = 1, pixels = 1;
  int64_t places() const { return images * lines * pixels; }
};

// Chunks of long lines: part of one line, or parts of several lines if that copies fewer rows into the strip. For
// windows of three rows, one line copies three input rows, and four lines copy six.
enum class LongLines : uint8_t { kOne, kSeveral };

// Chunk sizes of at most about `places` outputs, in decreasing order; at least one.
class ChunkSizes {
 public:
  ChunkSizes(const WindowShape &shape, int64_t places, LongLines longLines = LongLines::kOne);
  // Writes the next smaller size to `size`; false if there is none.
  bool next(ChunkSize &size);

 private:
  const WindowShape &shape_;
  int64_t images_, lines_, pixels_;
  bool done_ = false;
};

class Windows {
 public:
  enum class Reading : uint8_t { kInPlace, kStrip };  // in place if possible, or always from a strip
  Windows() = default;
  // `rowsTogether`: number of windows of neighbouring places that are read in parallel, element by element.
  Windows(const WindowShape &shape, const ChunkSize &size, int64_t rowsTogether = 1,
          Reading reading = Reading::kInPlace);
  // Windows that are always read from a strip with `pixelFloats` floats per position, which the caller fills.
  static Windows ofStrip(const WindowShape &shape, const ChunkSize &size, int64_t pixelFloats);

  int64_t chunks() const { return imageChunks_ * shape_.out[0] * lineChunks_ * pixelChunks_; }
  WindowChunk chunk(int64_t index) const;
  bool isReadInPlace() const { return inPlace_; }
  // Floats of the strip; 0 if images are read in place.
  size_t stripFloats() const { return inPlace_ ? 0 : static_cast<size_t>(size_.images * imageStride_); }

  // Positions of the largest chunk's strip.
  int64_t stripPixels() const {
    return size_.images * shape_.taps[0] * stripExtent(1, size_.lines) * stripExtent(2, size_.pixels);
  }

  // The address of tap 0 of the first window of `chunk`; `x` is the group's first channel of the first pixel of the
  // first image. The strides from there are imageStride() between images, and those of tap depths, input rows and
  // pixels.
  const float *read(const WindowChunk &chunk, const float *x, float *strip) const noexcept;
  // The same for 16-bit numbers, which become floats; only with Reading::kStrip.
  const float *widen(const WindowChunk &chunk, DataType type, const uint16_t *x, float *strip) const noexcept;
  // The same for the pixels that a program computes; only with Reading::kStrip.
  const float *compute(const WindowChunk &chunk, RowProgram &pixels, float *strip) const noexcept;
  // Calls fill(row, first, count, skip, offset) for every row of the strip of `chunk`. The strip gets the positions
  // first, first + skip, … of the input row that begins `row` floats after the first image; nullopt is a row outside
  // the image, and positions may be outside as well. They start at `offset`, with pixelStride() floats each.
  template <class Fill>
  void forEachStripRow(const WindowChunk &chunk, Fill &&fill) const;
  // Rows of the input that the windows of chunk `next` read and those of `chunk` do not: `count` rows of `floats`
  // floats with the given stride, starting `first` floats after the first image. Two-dimensional convolutions only.
  struct InputRows {
    ptrdiff_t first = 0;
    int64_t floats = 0, count = 0;
    ptrdiff_t stride = 0;
  };
  InputRows newRows(const WindowChunk &chunk, const WindowChunk &next) const noexcept;
  ptrdiff_t imageStride() const { return imageStride_; }
  ptrdiff_t depthTapStride() const { return depthTapStride_; }
  ptrdiff_t rowStride() const { return rowStride_; }
  ptrdiff_t pixelStride() const { return pixelStride_; }
  // Distances between the windows of neighbouring lines and places.
  ptrdiff_t lineStep() const { return step_[1] * rowStride_; }
  ptrdiff_t placeStep() const { return step_[2] * pixelStride_; }

 private:
  // Positions of the strip that the windows of `count` neighbouring outputs of dimension d span.
  int64_t stripExtent(size_t d, int64_t count) const {
    return (count - 1) * step_[d] + shape_.dilation[d] * (shape_.taps[d] - 1) + 1;
  }

  void layOutStrip(int64_t pixelStride);

  WindowShape shape_;
  ChunkSize size_;
  bool inPlace_ = true;
  int64_t imageChunks_ = 0, lineChunks_ = 0, pixelChunks_ = 0;
  // Of a strip, per dimension: `skip_` is the number of input positions from one strip position to the next, larger
  // than 1 if a single tap skips inputs; `step_` is the number of strip positions from the window of one output to the
  // next.
  Spatial skip_ = {1, 1, 1}, step_ = {1, 1, 1};
  ptrdiff_t imageStride_ = 0, depthTapStride_ = 0, rowStride_ = 0, pixelStride_ = 0;
};

template <class Fill>
void Windows::forEachStripRow(const WindowChunk &c, Fill &&fill) const {
  const WindowShape &s = shape_;
  const auto inside = [](int64_t at, int64_t size) { return at >= 0 && at < size; };
  const int64_t firstRow = c.line * s.stride[1] - s.low[1], first = c.pixel * s.stride[2] - s.low[2],
                depth = c.depth * s.stride[0] - s.low[0];
  const int64_t rows = stripExtent(1, c.lines), count = stripExtent(2, c.pixels);
  for (int64_t i = 0; i < c.images; ++i)
    for (int64_t tap = 0; tap < s.taps[0]; ++tap)
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t z = depth + tap * s.dilation[0], y = firstRow + r * skip_[1];
        std::optional<int64_t> row;
        if (inside(z, s.in[0]) && inside(y, s.in[1]))
          row = (((c.image + i) * s.in[0] + z) * s.in[1] + y) * s.in[2] * s.pixelStride;
        fill(row, first, count, skip_[2], i * imageStride_ + tap * depthTapStride_ + r * rowStride_);
      }
}

}  // namespace popart::cpu
