// See pool_window.hpp.
#include "backends/cpu/pool_window.hpp"

#include <algorithm>

namespace popart::cpu {
namespace {

// Larger windows are computed on each use, which takes a small part of their time.
constexpr int64_t kMostKeptTaps = 4096;

void readSpatial(const std::vector<int64_t> &values, size_t begin, size_t end, Spatial &to) {
  for (size_t i = begin; i < end; ++i) to[3 - (end - i)] = values[i];
}

}  // namespace

Pool poolOf(const Op &op, const Shape &x, const Shape &y) {
  Pool p;
  p.n = x[0], p.channels = x[1];
  p.in = spatialOf(x), p.out = spatialOf(y);
  p.kernel = {1, 1, 1};
  const size_t rank = x.size() - 2;
  readSpatial(op.attrInts("kernel_shape"), 0, rank, p.kernel);
  readSpatial(op.attrInts("strides"), 0, rank, p.stride);
  readSpatial(op.attrInts("dilations"), 0, rank, p.dilation);
  readSpatial(op.attrInts("pads"), 0, rank, p.padLow);
  readSpatial(op.attrInts("pads"), rank, 2 * rank, p.padHigh);
  return p;
}

PoolWindows::PoolWindows(const Pool &pool) : pool_(pool) {
  if (pool.taps() > kMostKeptTaps) return;
  for (size_t d = 0; d < 3; ++d) {
    const int64_t length = (pool.kernel[d] - 1) * pool.dilation[d] + 1, last = pool.in[d] - length + pool.padLow[d];
    inside_[d] = {(pool.padLow[d] + pool.stride[d] - 1) / pool.stride[d], last < 0 ? 0 : last / pool.stride[d] + 1};
  }
  const Spatial &kernel = pool.kernel, &step = pool.dilation;
  if (std::ranges::any_of(inside_, [](const Inside &i) { return i.first >= i.end; })) return;
  for (int64_t i = 0; i < kernel[0]; ++i)
    for (int64_t j = 0; j < kernel[1]; ++j)
      for (int64_t k = 0; k < kernel[2]; ++k)
        whole_.push_back(((i * step[0] * pool.in[1] + j * step[1]) * pool.in[2] + k * step[2]) * pool.pixelOfX());
}

PoolWindow PoolWindows::at(int64_t pixel, int64_t *taps) const noexcept {
  const Pool &p = pool_;
  const int64_t line = pixel / p.out[2];
  const Spatial at = {line / p.out[1], line % p.out[1], pixel % p.out[2]};
  const auto isInside = [&](size_t d) { return at[d] >= inside_[d].first && at[d] < inside_[d].end; };
  size_t count = 0;
  if (isInside(0) && isInside(1) && isInside(2)) {
    const auto begin = [&](size_t d) { return at[d] * p.stride[d] - p.padLow[d]; };
    const int64_t first = ((begin(0) * p.in[1] + begin(1)) * p.in[2] + begin(2)) * p.pixelOfX();
    for (const int64_t tap : whole_) taps[count++] = first + tap;
    return {{taps, count}, static_cast<int64_t>(count)};
  }
  const Reach depth = reach(p, 0, at[0]), row = reach(p, 1, at[1]), col = reach(p, 2, at[2]);
  for (int64_t i = 0; i < depth.count; ++i)
    for (int64_t j = 0; j < row.count; ++j) {
      const int64_t start =
          ((depth.first + i * p.dilation[0]) * p.in[1] + row.first + j * p.dilation[1]) * p.in[2] + col.first;
      for (int64_t k = 0; k < col.count; ++k) taps[count++] = (start + k * p.dilation[2]) * p.pixelOfX();
    }
  return {{taps, count}, depth.padded * row.padded * col.padded};
}

}  // namespace popart::cpu
