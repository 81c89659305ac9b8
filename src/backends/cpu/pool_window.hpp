// Windows of pooling over channels-last activations: a window is the list of its pixels inside the input.
#pragma once
#include <array>
#include <vector>

#include <popart/op.hpp>

#include "backends/cpu/kernels/pool_shape.hpp"
#include "backends/cpu/spatial.hpp"
#include "backends/cpu/vector/windows.hpp"

namespace popart::cpu {

// The pooling of input shape `x` to output shape `y`, both (N, C, spatial...) with one to three spatial dimensions.
Pool poolOf(const Op &op, const Shape &x, const Shape &y);

struct PoolWindow {
  Taps taps;       // offsets of the first channel of each pixel in the image, in order
  int64_t padded;  // positions inside the padded input
};

class PoolWindows {
 public:
  explicit PoolWindows(const Pool &pool);
  // The window at one output pixel of one image. `taps` must have room for Pool::taps() offsets.
  PoolWindow at(int64_t pixel, int64_t *taps) const noexcept;

 private:
  // Output positions [first, end) of a dimension whose windows have all taps inside the input.
  struct Inside {
    int64_t first = 0, end = 0;
  };
  Pool pool_;
  std::array<Inside, 3> inside_{};
  std::vector<int64_t> whole_;  // for such windows: offsets of the taps from the first one
};

}  // namespace popart::cpu
