// Resize and Upsample: sizes and scales are inputs in some versions, attributes in others.
#include <popart/error.hpp>

#include "onnx/importer.hpp"

namespace popart::onnx {
namespace {

std::vector<float> constantFloats(const NodeContext &n, int input) {
  const std::vector<double> values = n.constant(input).asDoubles();
  return {values.begin(), values.end()};
}

// Resize-10: [X, scales], coordinates x / scale. From 11 on: [X, roi, scales, sizes].
void importResize(NodeContext &n) {
  Attributes attributes = n.attributes();
  if (n.opset() < 11) {
    attributes.set("scales", constantFloats(n, 1));
    attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
    attributes.set("nearest_mode", std::string("simple"));
    return n.result(0, "Resize", {n.in(0)}, attributes);
  }
  const bool crops = n.attr<std::string>("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  if (crops) n.require(n.hasIn(1), "coordinate_transformation_mode tf_crop_and_resize needs input 1 (roi)");
  if (crops) attributes.set("roi", constantFloats(n, 1));
  if (n.hasIn(2) && n.constant(2).info().nelms() > 0) attributes.set("scales", constantFloats(n, 2));
  if (n.hasIn(3) && n.constant(3).info().nelms() > 0) attributes.set("sizes", n.constantInts(3));
  n.result(0, "Resize", {n.in(0)}, attributes);
}

// Upsample-1 has a scale for each spatial dimension of an image, 7 a list of scales, 9 an input.
void importUpsample(NodeContext &n) {
  Attributes attributes = {{"coordinate_transformation_mode", std::string("asymmetric")},
                           {"nearest_mode", std::string("floor")}};
  std::string mode = n.attr<std::string>("mode", "nearest");
  attributes.set("mode", mode == "bilinear" ? "linear" : mode);
  n.require(mode == "nearest" || mode == "linear" || mode == "bilinear",
            "attribute mode: got '{}', expected nearest or linear", mode);
  if (n.opset() >= 9) {
    attributes.set("scales", constantFloats(n, 1));
  } else if (n.opset() >= 7) {
    attributes.set("scales", n.attr<std::vector<float>>("scales", {}));
  } else {
    n.require(n.info(0).rank() == 4, "the input must have the dimensions (N, C, H, W): got {}", n.info(0));
    attributes.set("scales", std::vector<float>{1, 1, n.attr("height_scale", 1.0f), n.attr("width_scale", 1.0f)});
  }
  n.result(0, "Resize", {n.in(0)}, attributes);
}

}  // namespace

std::vector<ImportRule> resizeRules() {
  return {{"ai.onnx", "Resize", importResize}, {"ai.onnx", "Upsample", importUpsample}};
}

}  // namespace popart::onnx
