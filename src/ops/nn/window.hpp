// Sliding windows of convolution and pooling. The attributes kernel_shape, strides, pads, dilations, auto_pad and
// ceil_mode are checked, completed and resolved to explicit numbers, and give the sizes of results.
// After inference the attributes are complete: kernels read them directly and never see auto_pad.
#pragma once
#include <vector>

#include <popart/opdef.hpp>

namespace popart::ops {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, padsLow, padsHigh;

  size_t rank() const { return kernel.size(); }
  int64_t extent(size_t i) const {
    return (kernel[i] - 1) * dilations[i] + 1;
  }                                   // input elements between first and last tap
  std::vector<int64_t> pads() const;  // all lower pads, then all upper pads
};

// Reads a complete set of window attributes (after inference).
Window windowOf(const Attributes &attributes);

enum class Rounding { Floor, Ceil };

// Fills absent attributes with defaults, resolves auto_pad for spatial input dimensions `input` and writes the
// attributes back to the op. Fails for wrong lengths, strides or dilations below 1 and negative pads.
Window completeWindow(InferContext &c, const Shape &input, const std::vector<int64_t> &kernel);
// Spatial dimensions of the result. With Ceil, windows that would start in the upper padding are left out.
// Fails when the kernel does not fit.
Shape windowOutput(const InferContext &c, const Window &window, const Shape &input, Rounding rounding);

// Requires that input 0 is a gradient of the Conv of x and w with the op's attributes, which it completes. Its spatial
// dimensions may be smaller than those of the Conv's result: a transposed convolution with output padding of a stride
// or more has only the beginning of the convolution of its result.
void requireConvGradient(InferContext &c, const TensorInfo &x, const TensorInfo &w);

// Operations of a convolution or one of its gradients: every element on the side of the output channels is combined
// with the weights of its channel.
double convFlops(const TensorInfo &output, const Shape &weights);

// The spatial part (all but the first two dimensions).
Shape spatialShape(const Shape &shape);

// Adds the attributes strides, pads, dilations, auto_pad.
OpDef &windowAttributes(OpDef &row);
// Attribute of convolutions and their gradients: kernels may add products in another order than that of the window,
// where it is faster for the shape: by Winograd's algorithm, or as dot products. The pass allowWinograd sets it.
inline constexpr const char *kAnySumOrder = "any_sum_order";
// The window attributes of `op`, for its gradient op.
Attributes windowAttributesOf(const Attributes &attributes);

}  // namespace popart::ops
