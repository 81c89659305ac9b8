// Resize and Upsample: sizes and scales are inputs in some versions, attributes in others.
#include <algorithm>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

std::vector<float> constantFloats(const NodeContext &n, int input) {
  const std::vector<double> values = n.constant(input).asDoubles();
  return {values.begin(), values.end()};
}

// Integers are interpolated in FLOAT, rounded (halves to even), and limited to the range of their type if it has at
// most 16 bits.
void addResize(NodeContext &n, const Attributes &attributes) {
  const DataType type = n.info(0).dataType();
  if (attributes.getAttribute<std::string>("mode", "nearest") == "nearest" || (typeBit(type) & kInts) == 0)
    return n.result(0, "Resize", {n.in(0)}, attributes);
  Composer to(n);
  Value y = to.input(0).cast(DataType::FLOAT).op("Resize", {}, attributes).op("NearbyInt");
  const int bits = 8 * static_cast<int>(getDataTypeInfo(type).nbytes);
  if (bits <= 16) {
    const double least = (typeBit(type) & kSignedInts) != 0 ? -static_cast<double>(1 << (bits - 1)) : 0;
    y = y.clamp(least, least + (1 << bits) - 1);
  }
  to.result(0, y.cast(type));
}

// Input 3. A size that depends on data must be that of the axis, and does not change.
std::vector<int64_t> wantedSizes(const NodeContext &n) {
  const Sizes wanted = n.sizesIn(3), own = n.shapeOf(0);
  std::vector<int64_t> axes = n.attr<std::vector<int64_t>>("axes", {});
  for (size_t i = 0; axes.empty() && i < own.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < std::min(axes.size(), wanted.size()); ++i) {
    const Size &size = own[static_cast<size_t>(n.axisOf(axes[i], n.info(0).rank()))];
    if ((!size.isKnown() || !wanted[i].isKnown()) && !size.sameAs(wanted[i]))
      throw unknown_value(
          "dimension {} is resized from or to a size that depends on data of the run: it must be known when the graph "
          "is built",
          axes[i]);
  }
  return mostOf(wanted);
}

// Resize-10: [X, scales]. It uses the attributes of version 11; by default nearest is floor(x / scale), as in PopART
// and PyTorch, and linear has half-pixel coordinates (ONNX Runtime: asymmetric, and nearest uses ceil(x / scale) if an
// axis shrinks). From 11 on: [X, roi, scales, sizes].
void importResize(NodeContext &n) {
  Attributes attributes = n.attributes();
  if (n.opset() < 11) {
    attributes.set("scales", constantFloats(n, 1));
    if (!attributes.hasAttribute("nearest_mode")) attributes.set("nearest_mode", std::string("pytorch"));
    return addResize(n, attributes);
  }
  const bool crops = n.attr<std::string>("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  if (crops) n.require(n.hasIn(1), "coordinate_transformation_mode tf_crop_and_resize needs input 1 (roi)");
  if (crops) attributes.set("roi", constantFloats(n, 1));
  if (n.hasIn(2) && n.constant(2).info().nelms() > 0) attributes.set("scales", constantFloats(n, 2));
  if (n.hasIn(3) && n.info(3).nelms() > 0) attributes.set("sizes", wantedSizes(n));
  addResize(n, attributes);
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
  addResize(n, attributes);
}

}  // namespace

std::vector<ImportRule> resizeRules() {
  return {{"ai.onnx", "Resize", importResize}, {"ai.onnx", "Upsample", importUpsample}};
}

}  // namespace popart::onnx
