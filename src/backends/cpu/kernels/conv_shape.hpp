// Geometry of a channels-last convolution. Invariant: plain numbers; validity (positive strides, groups dividing the
// channels) is checked where operators are built, not here.
#pragma once

#include <array>
#include <cstdint>

#include <popart/datatype.hpp>

namespace popart::cpu {

using Spatial = std::array<int64_t, 3>;  // depth, height, width
constexpr int64_t volume(const Spatial &s) { return s[0] * s[1] * s[2]; }

struct ConvShape {
  int64_t n = 1;
  Spatial in = {1, 1, 1};
  int64_t cin = 1;
  int64_t cout = 1;
  int64_t groups = 1;  // divides cin and cout
  Spatial kernel = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial dilation = {1, 1, 1};
  Spatial padLow = {0, 0, 0};
  Spatial padHigh = {0, 0, 0};
  // Elements from one pixel to the next of x and of y; 0: their number of channels. Other values only in FLOAT, and not
  // if groups are joined.
  int64_t xStride = 0, yStride = 0;
  DataType type = DataType::FLOAT;  // of activations and weights; 16 bits not if groups are joined
  bool computesX = false;           // x is what a RowProgram computes
  // Products may be added in another order than that of the window, where it is faster for the shape: by Winograd's
  // algorithm, or as dot products (window_dots.hpp).
  bool anySumOrder = false;

  // floor((in + pads - dilation * (kernel - 1) - 1) / stride) + 1, at least 0 (ONNX Conv).
  Spatial out() const;
  int64_t pixelOfX() const { return xStride > 0 ? xStride : cin; }
  int64_t pixelOfY() const { return yStride > 0 ? yStride : cout; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  // Whether there is one input channel per output channel.
  bool isDepthwise() const { return groups > 1 && groups == cin && groups == cout; }
  // Whether the groups have at most half a vector of channels, so that vectors hold channels of several groups
  // (conv_grouped.hpp). Their weights are packed as one matrix (taps * Cin/g) x Cout for all passes.
  bool joinsGroups() const;
};

}  // namespace popart::cpu
