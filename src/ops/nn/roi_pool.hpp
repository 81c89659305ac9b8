// Where MaxRoiPool reads: the bins of a box along one axis of its image.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace popart::ops {

// Bounds are computed as in ONNX Runtime and torchvision, in float and with halves rounded away from zero, so that a
// bin has the same elements; both ends of a box belong to it.
struct RoiBins {
  float first = 0, size = 0;
  int64_t limit;  // elements of the image along the axis

  RoiBins(double low, double high, float scale, int64_t bins, int64_t length) : limit(length) {
    first = std::round(static_cast<float>(low) * scale);
    const float last = std::round(static_cast<float>(high) * scale);
    size = std::max(last - first + 1, 1.0f) / static_cast<float>(bins);
  }
  // The elements [begin, end) of a bin; none if end is not above begin.
  int64_t begin(int64_t bin) const { return inside(std::floor(static_cast<float>(bin) * size) + first); }
  int64_t end(int64_t bin) const { return inside(std::ceil(static_cast<float>(bin + 1) * size) + first); }

 private:
  int64_t inside(float at) const {
    return at > 0 ? static_cast<int64_t>(std::min(at, static_cast<float>(limit))) : 0;  // NaN is 0
  }
};

}  // namespace popart::ops
