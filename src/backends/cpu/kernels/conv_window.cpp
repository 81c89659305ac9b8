// Strips of padded rows, see conv_window.hpp.
#include "backends/cpu/kernels/conv_window.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/gemm.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"
#include "backends/cpu/kernels/pairs.hpp"

namespace popart::cpu {
namespace {

// A line is not split into pieces with fewer register tiles, because the last tile of a piece may be half empty.
constexpr int64_t kSmallestTiles = 3;

bool inside(int64_t at, int64_t size) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(size); }

// Copies `count` positions of an input row, from `first` on, every `skip`-th one, to places `outStride` floats apart,
// with copy(offset in the row, numbers, to). Positions outside the row become zeros.
template <class Copy>
void copyRow(const WindowShape &s, bool isInside, int64_t first, int64_t count, int64_t skip, float *out,
             int64_t outStride, Copy &&copy) noexcept {
  const int64_t channels = s.channels;
  const int64_t begin = isInside ? std::clamp<int64_t>(ceilDiv(-first, skip), 0, count) : count;
  const int64_t end = isInside ? std::clamp<int64_t>(ceilDiv(s.in[2] - first, skip), begin, count) : count;
  std::fill_n(out, begin * outStride, 0.0f);
  if (skip == 1 && channels == s.pixelStride && channels == outStride) {
    if (end > begin) copy((first + begin) * channels, (end - begin) * channels, out + begin * channels);
  } else {
    for (int64_t i = begin; i < end; ++i) copy((first + i * skip) * s.pixelStride, channels, out + i * outStride);
  }
  std::fill_n(out + end * outStride, (count - end) * outStride, 0.0f);
}

// Functions for copyRow that copy numbers of a row.
auto copyFloats(const float *row) {
  return [row](int64_t offset, int64_t numbers, float *to) {
    std::memcpy(to, row + offset, static_cast<size_t>(numbers) * sizeof(float));
  };
}
auto copyWidened(DataType type, const uint16_t *row) {
  return [type, row](int64_t offset, int64_t numbers, float *to) { widen(type, row + offset, numbers, to); };
}

// Whether `rows` rows that are read in parallel, rowStep floats apart, compete for the same sets of the first level
// cache. Addresses 4 KiB apart share a set in caches of all sizes, and the smallest sets of current machines hold 8
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

template <class F>
void PaddedImages::forRows(int64_t begin, int64_t end, F &&f) const noexcept {
  const WindowShape &s = shape_;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t row = r % padded_.in[1] - s.low[1], depth = r / padded_.in[1] % padded_.in[0] - s.low[0];
    const int64_t image = r / (padded_.in[0] * padded_.in[1]) % s.n, group = r / (rows() / groups_);
    std::optional<int64_t> at;
    if (inside(depth, s.in[0]) && inside(row, s.in[1]))
      at = group * s.channels + (depth * s.in[1] + row) * s.in[2] * s.pixelStride;
    f(r * rowFloats(), image, at);
  }
}

void PaddedImages::copyRows(const float *x, int64_t begin, int64_t end, float *copy) const noexcept {
  const WindowShape &s = shape_;
  forRows(begin, end, [&](int64_t to, int64_t image, std::optional<int64_t> at) {
    const float *row = at ? x + image * volume(s.in) * s.pixelStride + *at : x;
    copyRow(s, at.has_value(), -s.low[2], padded_.in[2], 1, copy + to, s.channels, copyFloats(row));
  });
}

void PaddedImages::widenRows(DataType type, const uint16_t *x, int64_t begin, int64_t end, float *copy) const noexcept {
  const WindowShape &s = shape_;
  forRows(begin, end, [&](int64_t to, int64_t image, std::optional<int64_t> at) {
    const uint16_t *row = at ? x + image * volume(s.in) * s.pixelStride + *at : x;
    copyRow(s, at.has_value(), -s.low[2], padded_.in[2], 1, copy + to, s.channels, copyWidened(type, row));
  });
}

void PaddedImages::pairRows(const uint16_t *x, int64_t images, int64_t begin, int64_t end, float *copy) const noexcept {
  const WindowShape &s = shape_;
  const int64_t imageSize = volume(s.in) * s.pixelStride;
  forRows(begin, end, [&](int64_t to, int64_t image, std::optional<int64_t> at) {
    const uint16_t *first = at ? x + 2 * image * imageSize + *at : x;
    const uint16_t *second = 2 * image + 1 < images ? first + imageSize : nullptr;
    copyRow(s, at.has_value(), -s.low[2], padded_.in[2], 1, copy + to, s.channels,
            [&](int64_t offset, int64_t numbers, float *pairs) {
              pairMatrices(first + offset, second ? second + offset : nullptr, 0, 1, numbers, numbers, pairs);
            });
  });
}

ChunkSizes::ChunkSizes(const WindowShape &shape, int64_t places, LongLines longLines) : shape_(shape) {
  const int64_t line = std::max<int64_t>(1, shape.out[2]), lines = std::max<int64_t>(1, shape.out[1]);
  pixels_ = std::min(line, places);
  lines_ = pixels_ < line ? 1 : std::clamp<int64_t>(places / line, 1, lines);
  images_ = lines_ < lines || shape.out[0] != 1
                ? 1
                : std::clamp<int64_t>(places / (line * lines), 1, std::max<int64_t>(1, shape.n));
  if (longLines == LongLines::kOne || shape.taps[1] == 1) return;
  // The input pixels copied per output place, for pieces of lines of this size.
  const auto copied = [&](int64_t count, int64_t length) {
    return static_cast<double>(shape.extent(1, count) * shape.extent(2, length)) / static_cast<double>(count * length);
  };
  const int64_t shortest = kSmallestTiles * microKernels().tileRows;
  double fewest = copied(lines_, pixels_);
  for (int64_t pieces = 2; ceilDiv(line, pieces) >= shortest; ++pieces) {
    const int64_t length = std::min(ceilDiv(line, pieces), places),
                  count = std::clamp<int64_t>(places / length, 1, lines);
    if (copied(count, length) >= fewest) continue;
    fewest = copied(count, length);
    pixels_ = length, lines_ = count, images_ = 1;
  }
}

bool ChunkSizes::next(ChunkSize &size) {
  if (done_) return false;
  // Splits into equal pieces, so that there is no small remainder.
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

Windows::Windows(const WindowShape &shape, const ChunkSize &size, int64_t rowsTogether, Reading reading)
    : shape_(shape),
      size_(size),
      inPlace_(reading == Reading::kInPlace && shape.fits() &&
               !compete(shape.stride[2] * shape.pixelStride, rowsTogether)),
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
  if (compete(placeStep(), rowsTogether)) pixelStride_ += kCacheLineFloats;  // the next row maps to the next set
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

Windows::InputRows Windows::newRows(const WindowChunk &chunk, const WindowChunk &next) const noexcept {
  const WindowShape &s = shape_;
  // Input positions [begin, end) of dimension d that windows [first, first + count) read.
  const auto span = [&](size_t d, int64_t first, int64_t count) {
    const int64_t begin = first * s.stride[d] - s.low[d];
    return std::pair(std::clamp<int64_t>(begin, 0, s.in[d]),
                     std::clamp<int64_t>(begin + s.extent(d, count), 0, s.in[d]));
  };
  const auto [line, endLine] = span(1, next.line, next.lines);
  const auto [pixel, endPixel] = span(2, next.pixel, next.pixels);
  int64_t row = next.image * s.in[1] + line;
  const int64_t endRow = (next.image + next.images - 1) * s.in[1] + endLine;
  if (chunk.image == next.image && chunk.pixel == next.pixel && chunk.line < next.line)
    row = std::max(row, chunk.image * s.in[1] + span(1, chunk.line, chunk.lines).second);
  if (row >= endRow || pixel >= endPixel) return {};
  const int64_t rowFloats = s.in[2] * s.pixelStride;
  InputRows rows{row * rowFloats + pixel * s.pixelStride, (endPixel - pixel) * s.pixelStride, endRow - row, rowFloats};
  if (rows.floats == rowFloats) rows.floats *= std::exchange(rows.count, 1);
  return rows;
}

const float *Windows::read(const WindowChunk &c, const float *x, float *strip) const noexcept {
  const WindowShape &s = shape_;
  if (inPlace_) {
    const int64_t row = c.line * s.stride[1] - s.low[1], column = c.pixel * s.stride[2] - s.low[2];
    const int64_t depth = c.image * s.in[0] + c.depth * s.stride[0] - s.low[0];
    return x + ((depth * s.in[1] + row) * s.in[2] + column) * s.pixelStride;
  }
  forEachStripRow(c, [&](std::optional<int64_t> row, int64_t first, int64_t count, int64_t skip, ptrdiff_t at) {
    copyRow(s, row.has_value(), first, count, skip, strip + at, pixelStride_, copyFloats(x + row.value_or(0)));
  });
  return strip;
}

const float *Windows::widen(const WindowChunk &c, DataType type, const uint16_t *x, float *strip) const noexcept {
  forEachStripRow(c, [&](std::optional<int64_t> row, int64_t first, int64_t count, int64_t skip, ptrdiff_t at) {
    copyRow(shape_, row.has_value(), first, count, skip, strip + at, pixelStride_,
            copyWidened(type, x + row.value_or(0)));
  });
  return strip;
}

const float *Windows::compute(const WindowChunk &c, RowProgram &pixels, float *strip) const noexcept {
  const WindowShape &s = shape_;
  forEachStripRow(c, [&](std::optional<int64_t> row, int64_t first, int64_t count, int64_t skip, ptrdiff_t at) {
    const int64_t pixel = row.value_or(0) / s.pixelStride;
    copyRow(s, row.has_value(), first, count, skip, strip + at, pixelStride_,
            [&](int64_t offset, int64_t numbers, float *to) {
              for (int64_t k = 0; k < s.channels; k += RowProgram::kMostElements)
                pixels.run(pixel + offset / s.pixelStride, numbers / s.channels, k,
                           std::min(RowProgram::kMostElements, s.channels - k), to + k, s.channels);
            });
  });
  return strip;
}

}  // namespace popart::cpu
