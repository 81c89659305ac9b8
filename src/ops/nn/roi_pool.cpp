// MaxRoiPool: the largest element of each bin of boxes of images, and the gradient for the images; boxes have no
// gradient.
// x (N, C, H, W), boxes (n, 5) as (image, x1, y1, x2, y2) → y (n, C, pooled_shape…).
#include <cmath>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void inferMaxRoiPool(InferContext &c) {
  const Shape &x = c.shape(0), &boxes = c.shape(1), &bins = c.attrInts("pooled_shape");
  c.require(x.size() == 4, "the images need the dimensions (N, C, H, W): got shape {}", x);
  c.require(boxes.size() == 2 && boxes[1] == 5, "the boxes need the shape (n, 5): got {}", boxes);
  constexpr int64_t kMostBins = 1 << 15;
  c.require(bins.size() == 2, "pooled_shape must be (rows, columns): got {}", bins);
  for (int64_t count : bins)
    c.require(count >= 1 && count <= kMostBins, "pooled_shape must be between 1 and {}: got {}", kMostBins, bins);
  const float scale = c.attrFloat("spatial_scale");
  c.require(std::isfinite(scale) && scale > 0, "spatial_scale must be positive: got {}", scale);
  c.out(0, c.type(0), {boxes[0], x[1], bins[0], bins[1]});
}

// At most every element of the images once for each box.
void boxCost(const Op &op, Cost &c) {
  c.flops = static_cast<double>(std::max(op.inInfo(0).nelms(), op.outInfo(0).nelms()));
}

}  // namespace

OpDefs roiPoolOps() {
  OpDef forward("ai.onnx", "MaxRoiPool", {1, 22});
  forward.input("X", kFloats, "T")
      .input("rois", kFloats, "T")
      .slots(Slot::Setting, {1})
      .output("Y")
      .attrRequired("pooled_shape", AttributeType::Ints)
      .attr("spatial_scale", 1.0f)
      .infer(inferMaxRoiPool)
      .cost(boxCost)
      .vjp([](VjpBuilder &b) {
        b.grad(0, b.emit("MaxRoiPoolGrad", {b.gradOut(0), b.in(0), b.in(1)}, b.attrs()));
      })
      .doc("The largest element of each bin of regions of images; 0 if a bin is outside of its image.");
  OpDef gradient("ai.graphcore", "MaxRoiPoolGrad", {1});
  gradient.input("grad", kFloats, "T")
      .input("X", kFloats, "T")
      .input("rois", kFloats, "T")
      .output("dx")
      .attrRequired("pooled_shape", AttributeType::Ints)
      .attr("spatial_scale", 1.0f)
      .infer([](InferContext &c) {
        inferGradientOf(c, "MaxRoiPool", {c.in(1), c.in(2)});
      })
      .traits(Trait::Gradient)
      .cost(boxCost)
      .notOnnx()
      .doc(
          "Gradient of MaxRoiPool with respect to the images: each bin's gradient is added to its first largest "
          "element.");
  return {std::move(forward), std::move(gradient)};
}

}  // namespace popart::ops
