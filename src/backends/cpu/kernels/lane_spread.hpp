// Spreads the channels of pixels over the lanes of vectors that hold output channels of several groups.
//
// Output channel n of a grouped sum reads the channels n / outGroup * inGroup + j, j in [0, inGroup), of a pixel.
// spread[pixel][j][lane] is channel j of the group that the lane's output channel belongs to:
//
//   inGroup = outGroup = 2, lanes of 4:   a0 a1 b0 b1  ->  j = 0: a0 a0 b0 b0    j = 1: a1 a1 b1 b1
//
// so that one multiply-add of a vector with its weights serves all lanes. Invariant: pure copies; nothing beyond the
// channels of a pixel is read, and lanes beyond the last output channel repeat its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace popart::cpu {

// Pixels, and one vector of each of their results.
struct SpreadRows {
  const float *from;
  ptrdiff_t fromStride;
  int64_t count;
  float *to;
  ptrdiff_t toStride;
};

class LaneSpread {
 public:
  LaneSpread() = default;
  LaneSpread(int64_t groups, int64_t inGroup, int64_t outGroup);
  // Floats of a spread pixel: inGroup times panelWidth().
  int64_t pixelFloats() const { return terms_ * 2 * lanes_; }
  // Spreads `count` pixels for the output channels of panel `panel`. `pixels` is the first channel of the first pixel;
  // pixels are `pixelStride` floats apart. The results are contiguous.
  void run(int64_t panel, const float *pixels, ptrdiff_t pixelStride, int64_t count, float *spread) const noexcept;

 private:
  int64_t channels_ = 0, outGroup_ = 1, outChannels_ = 0, terms_ = 1, lanes_ = 1;
  // [vector of output channels][term][lane]: the channel to read, relative to the vector's first channel.
  std::vector<int32_t> indices_;
};

}  // namespace popart::cpu
