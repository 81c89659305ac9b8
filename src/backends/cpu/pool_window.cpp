// See pool_window.hpp.
#include "backends/cpu/pool_window.hpp"

#include <algorithm>

namespace popart::cpu {
namespace {

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

PoolWindow windowAt(const Pool &p, int64_t pixel, int64_t *taps) {
  const Spatial at = {pixel / (p.out[1] * p.out[2]), pixel / p.out[2] % p.out[1], pixel % p.out[2]};
  const Reach depth = reach(p, 0, at[0]), row = reach(p, 1, at[1]), col = reach(p, 2, at[2]);
  size_t count = 0;
  for (int64_t i = 0; i < depth.count; ++i)
    for (int64_t j = 0; j < row.count; ++j) {
      const int64_t start =
          ((depth.first + i * p.dilation[0]) * p.in[1] + row.first + j * p.dilation[1]) * p.in[2] + col.first;
      for (int64_t k = 0; k < col.count; ++k) taps[count++] = (start + k * p.dilation[2]) * p.pixelOfX();
    }
  return {{taps, count}, depth.padded * row.padded * col.padded};
}

}  // namespace popart::cpu
