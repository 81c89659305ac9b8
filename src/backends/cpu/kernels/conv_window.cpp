// Strips of padded rows, see conv_window.hpp.
#include "backends/cpu/kernels/conv_window.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart::cpu {
namespace {

// A line is not split into pieces of fewer register tiles, whose last tile would be half empty.
constexpr int64_t kSmallestTiles = 4;

bool inside(int64_t at, int64_t size) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(size); }

// `count` positions of one input row from `first` on, every `skip`-th one, to places `outStride` floats apart; `row` is
// nullptr when the row lies outside the image.
void copyRow(const WindowShape &s, const float *row, int64_t first, int64_t count, int64_t skip, float *out,
             int64_t outStride) noexcept {
  const int64_t channels = s.channels;
  const int64_t begin = row ? std::clamp<int64_t>(ceilDiv(-first, skip), 0, count) : count;
  const int64_t end = row ? std::clamp<int64_t>(ceilDiv(s.in[2] - first, skip), begin, count) : count;
  std::fill_n(out, begin * outStride, 0.0f);
  if (skip == 1 && channels == s.pixelStride && channels == outStride) {
    if (end > begin)
      std::memcpy(out + begin * channels, row + (first + begin) * channels,
                  static_cast<size_t>((end - begin) * channels) * sizeof(float));
  } else {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(out + i * outStride, row + (first + i * skip) * s.pixelStride,
                  static_cast<size_t>(channels) * sizeof(float));
  }
  std::fill_n(out + end * outStride, (count - end) * outStride, 0.0f);
}

// Whether `rows` rows that are read together, so many floats apart, compete for the same lines of the first level
// cache. Addresses 4 KiB apart share a set of it, whatever its size, and the smallest sets of today's machines hold 8
// lines.
bool compete(int64_t rowStep, int64_t rows) {
  constexpr int64_t kSetsSpan = 4096, kWays = 8;
  const int64_t bytes = rowStep * static_cast<int64_t>(sizeof(float));
  return bytes > 0 && rows > kWays * (kSetsSpan / std::gcd(bytes, kSetsSpan));
}

}  // namespace

bool WindowShape::fits() const {
  for (size_t d = 0; d < 3; ++d)
    if (low[d] > 0 || extent(d, out[d]) - low[d] > in[d]) return false;
  return true;
}

PaddedImages::PaddedImages(const WindowShape &shape, int64_t groups) : shape_(shape), padded_(shape), groups_(groups) {
  for (size_t d = 0; d < 3; ++d) padded_.in[d] = std::max<int64_t>(0, shape.extent(d, shape.out[d]));
  padded_.low = {0, 0, 0};
  padded_.pixelStride = shape.channels;
}

void PaddedImages::copyRows(const float *x, int64_t begin, int64_t end, float *copy) const noexcept {
  const WindowShape &s = shape_;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t row = r % padded_.in[1] - s.low[1], depth = r / padded_.in[1] % padded_.in[0] - s.low[0];
    const int64_t image = r / (padded_.in[0] * padded_.in[1]) % s.n, group = r / (rows() / groups_);
    const float *from = nullptr;
    if (inside(depth, s.in[0]) && inside(row, s.in[1]))
      from = x + group * s.channels + ((image * s.in[0] + depth) * s.in[1] + row) * s.in[2] * s.pixelStride;
    copyRow(s, from, -s.low[2], padded_.in[2], 1, copy + r * rowFloats(), s.channels);
  }
}

ChunkSizes::ChunkSizes(const WindowShape &shape, int64_t places) : shape_(shape) {
  const int64_t line = std::max<int64_t>(1, shape.out[2]), lines = std::max<int64_t>(1, shape.out[1]);
  pixels_ = std::min(line, places);
  lines_ = pixels_ < line ? 1 : std::clamp<int64_t>(places / line, 1, lines);
  images_ = lines_ < lines || shape.out[0] != 1
                ? 1
                : std::clamp<int64_t>(places / (line * lines), 1, std::max<int64_t>(1, shape.n));
}

bool ChunkSizes::next(ChunkSize &size) {
  if (done_) return false;
  // Equal pieces, so that there is no small remainder.
  auto even = [](int64_t whole, int64_t piece) {
    whole = std::max<int64_t>(1, whole);
    return ceilDiv(whole, ceilDiv(whole, piece));
  };
  size = {even(shape_.n, images_), even(shape_.out[1], lines_), even(shape_.out[2], pixels_)};
  if (size.images > 1) {
    images_ = size.images / 2;
  } else if (size.lines > 1) {
    lines_ = size.lines / 2;
  } else if (size.pixels > kSmallestTiles * microKernels().tileRows) {
    pixels_ = size.pixels / 2;
  } else {
    done_ = true;
  }
  return true;
}

Windows::Windows(const WindowShape &shape, const ChunkSize &size, int64_t rowsTogether)
    : shape_(shape),
      size_(size),
      inPlace_(shape.fits() && !compete(shape.stride[2] * shape.pixelStride, rowsTogether)),
      step_(shape.stride) {
  const bool empty = shape.out[0] * shape.out[1] * shape.out[2] == 0;
  imageChunks_ = empty ? 0 : ceilDiv(shape.n, size.images);
  lineChunks_ = ceilDiv(shape.out[1], size.lines);
  pixelChunks_ = ceilDiv(shape.out[2], size.pixels);
  if (inPlace_) {
    pixelStride_ = shape.pixelStride;
    rowStride_ = shape.in[2] * pixelStride_;
    depthTapStride_ = shape.dilation[0] * shape.in[1] * rowStride_;
    imageStride_ = shape.in[0] * shape.in[1] * rowStride_;
    return;
  }
  for (size_t d = 1; d < 3; ++d)
    if (shape.taps[d] == 1) std::swap(skip_[d], step_[d]);
  pixelStride_ = shape.channels;
  if (compete(placeStep(), rowsTogether)) pixelStride_ += kCacheLineFloats;  // the next row is in the next set
  layOutStrip(pixelStride_);
}

void Windows::layOutStrip(int64_t pixelStride) {
  pixelStride_ = pixelStride;
  rowStride_ = stripExtent(2, size_.pixels) * pixelStride_;
  depthTapStride_ = stripExtent(1, size_.lines) * rowStride_;
  imageStride_ = shape_.taps[0] * depthTapStride_;
}

Windows Windows::ofStrip(const WindowShape &shape, const ChunkSize &size, int64_t pixelFloats) {
  Windows windows(shape, size);
  if (windows.inPlace_) {
    windows.inPlace_ = false;
    for (size_t d = 1; d < 3; ++d)
      if (shape.taps[d] == 1) std::swap(windows.skip_[d], windows.step_[d]);
  }
  windows.layOutStrip(pixelFloats);
  return windows;
}

WindowChunk Windows::chunk(int64_t index) const {
  WindowChunk c{};
  c.pixel = index % pixelChunks_ * size_.pixels;
  index /= pixelChunks_;
  c.line = index % lineChunks_ * size_.lines;
  index /= lineChunks_;
  c.depth = index % shape_.out[0];
  c.image = index / shape_.out[0] * size_.images;
  c.images = std::min(size_.images, shape_.n - c.image);
  c.lines = std::min(size_.lines, shape_.out[1] - c.line);
  c.pixels = std::min(size_.pixels, shape_.out[2] - c.pixel);
  return c;
}

const float *Windows::read(const WindowChunk &c, const float *x, float *strip) const noexcept {
  const WindowShape &s = shape_;
  if (inPlace_) {
    const int64_t row = c.line * s.stride[1] - s.low[1], column = c.pixel * s.stride[2] - s.low[2];
    const int64_t depth = c.image * s.in[0] + c.depth * s.stride[0] - s.low[0];
    return x + ((depth * s.in[1] + row) * s.in[2] + column) * s.pixelStride;
  }
  forEachStripRow(c, [&](std::optional<int64_t> row, int64_t first, int64_t count, int64_t skip, ptrdiff_t at) {
    copyRow(s, row ? x + *row : nullptr, first, count, skip, strip + at, pixelStride_);
  });
  return strip;
}

}  // namespace popart::cpu
