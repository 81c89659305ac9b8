// Resize along one axis is a linear map with few entries in each row, the taps (see resize.cpp). Kernels apply the maps
// axis by axis.
#pragma once
#include <vector>

#include <popart/attributes.hpp>
#include <popart/tensorinfo.hpp>

namespace popart::ops {

// The change of one axis.
struct ResizeAxis {
  int64_t in, out;          // sizes
  double scale;             // out / in before rounding
  double roiStart, roiEnd;  // for tf_crop_and_resize, as fractions of the axis
};

// The axes of an input of `shape`. Throws popart::error when attributes contradict each other or the shape.
std::vector<ResizeAxis> resizeAxes(const Attributes &attributes, const Shape &shape);

// y[o] = sum over k of weight[o count + k] x[index[o count + k]], plus offset[o]. Every row has `count` taps; unused
// ones have weight 0.
struct AxisTaps {
  int64_t count = 0;
  std::vector<int64_t> index;
  std::vector<double> weight;
  std::vector<double> offset;  // empty: zeros

  int64_t rows() const { return count == 0 ? 0 : static_cast<int64_t>(index.size()) / count; }
  bool selects() const;  // every row has one element
  bool changesNothing(int64_t in) const;
};

// The map of each axis of Resize with an input of shape `in`. Throws popart::error like resizeAxes.
std::vector<AxisTaps> forwardMaps(const Attributes &attributes, const Shape &in);
// The maps of ResizeGrad, which are transposed and have no offsets: from the shape that Resize gives an input of shape
// `in`, back to `in`.
std::vector<AxisTaps> gradientMaps(const Attributes &attributes, const Shape &in);

}  // namespace popart::ops
