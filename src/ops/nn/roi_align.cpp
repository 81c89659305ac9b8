// RoiAlign: means or maxima over the bins of boxes of images, and the gradient for the images; boxes have no gradient.
// x (N, C, H, W), boxes (n, 4) as (x1, y1, x2, y2), image of each box (n) → y (n, C, output_height, output_width).
#include "ops/nn/roi_align.hpp"

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void inferRoiAlign(InferContext &c) {
  const Shape &x = c.shape(0), &boxes = c.shape(1), &images = c.shape(2);
  c.require(x.size() == 4, "the images need the dimensions (N, C, H, W): got shape {}", x);
  c.require(boxes.size() == 2 && boxes[1] == 4, "the boxes need the shape (n, 4): got {}", boxes);
  c.require(images == Shape{boxes[0]}, "there must be one image for each box: got shape {}, expected {}", images,
            Shape{boxes[0]});
  constexpr int64_t kMostBins = 1 << 15;
  for (const char *name : {"output_height", "output_width"})
    c.require(c.attrInt(name) >= 1 && c.attrInt(name) <= kMostBins, "{} must be between 1 and {}: got {}", name,
              kMostBins, c.attrInt(name));
  c.require(c.attrInt("sampling_ratio") >= 0 && c.attrInt("sampling_ratio") <= kMostBins,
            "sampling_ratio must be between 0 and {}: got {}", kMostBins, c.attrInt("sampling_ratio"));
  const std::string &mode = c.attrString("mode");
  c.require(mode == "avg" || mode == "max", "unknown mode: got '{}', expected 'avg' or 'max'", mode);
  const std::string &coordinates = c.attrString("coordinate_transformation_mode");
  c.require(coordinates == "half_pixel" || coordinates == "output_half_pixel",
            "unknown coordinate_transformation_mode: got '{}', expected half_pixel or output_half_pixel", coordinates);
  c.out(0, c.type(0), {boxes[0], x[1], c.attrInt("output_height"), c.attrInt("output_width")});
}

OpDef &addRoiAlignAttributes(OpDef &row) {
  return row.attr("output_height", int64_t{1})
      .attr("output_width", int64_t{1})
      .attr("sampling_ratio", int64_t{0})
      .attr("spatial_scale", 1.0f)
      .attr("mode", std::string("avg"))
      .attr("coordinate_transformation_mode", std::string("output_half_pixel"));
}

// Pieces are boxes, with the image index of each.
bool boxPieces(const Op &, InIndex cut, int axis, Pieces &pieces) {
  if (cut == 0 || axis != 0) return false;
  pieces.in[1] = pieces.in[2] = pieces.out[0] = 0;
  return true;
}

// Four elements for each sample.
void sampleCost(const Op &op, Cost &c) {
  const auto ratio = static_cast<double>(std::max<int64_t>(op.attrInt("sampling_ratio"), 1));
  c.flops = 8 * ratio * ratio * static_cast<double>(std::max(op.inInfo(0).nelms(), op.outInfo(0).nelms()));
}

}  // namespace

OpDefs roiAlignOps() {
  OpDef forward("ai.onnx", "RoiAlign", {10, 16, 22});
  forward.input("X", kFloats)
      .input("rois", kFloats)
      .input("batch_indices", kIndices)
      .slots(Slot::Setting, {1})
      .output("Y");
  addRoiAlignAttributes(forward)
      .infer(inferRoiAlign)
      .pieces(boxPieces)
      .cost(sampleCost)
      .vjp([](VjpBuilder &b) {
        Attributes attributes = b.attrs();
        attributes.set("fwd_shape", b.inInfo(0).shape());
        std::vector<TensorIndex> inputs = {b.gradOut(0), b.in(1), b.in(2)};
        if (b.op().attrString("mode") == "max") inputs.push_back(b.in(0));
        b.grad(0, b.emit("RoiAlignGrad", inputs, attributes));
      })
      .doc("Means or maxima over the bins of regions of images, interpolated between elements.");
  OpDef gradient("ai.graphcore", "RoiAlignGrad", {1});
  gradient.input("grad", kFloats).input("rois", kFloats).input("batch_indices", kIndices).output("dx");
  gradient.input("X", kFloats, "", Arity::Optional);  // of mode max
  gradient.attrRequired("fwd_shape", AttributeType::Ints);
  addRoiAlignAttributes(gradient)
      .infer([](InferContext &c) {
        inferGradientOf(c, "RoiAlign", {forwardInfo(c), c.in(1), c.in(2)});
        const bool max = c.attrString("mode") == "max";
        c.require(max == c.hasIn(3), "mode {} {} the images as input 3", c.attrString("mode"),
                  max ? "needs" : "has no");
        if (max) c.require(c.in(3) == forwardInfo(c), "the images must be {}: got {}", forwardInfo(c), c.in(3));
      })
      .traits(Trait::Gradient)
      .cost(sampleCost)
      .notOnnx()
      .doc(
          "Gradient of RoiAlign with respect to the images: each bin's gradient is added to the elements around its "
          "samples.");
  return {std::move(forward), std::move(gradient)};
}

}  // namespace popart::ops
