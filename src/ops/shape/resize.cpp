// Resize: changes the number of elements along each axis by nearest, linear or cubic interpolation. Along each axis it
// is a linear map (resize_taps.hpp), and the gradient is the transposed map.
#include <algorithm>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"
#include "ops/shape/resize_taps.hpp"

namespace popart::ops {
namespace {

void requireOneOf(const InferContext &c, const char *name, const std::vector<std::string> &allowed) {
  c.require(std::ranges::find(allowed, c.attrString(name)) != allowed.end(), "{}: got '{}', expected one of {}", name,
            c.attrString(name), allowed);
}

void inferResize(InferContext &c) {
  requireOneOf(c, "mode", {"nearest", "linear", "cubic"});
  requireOneOf(c, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "pytorch"});
  requireOneOf(c, "coordinate_transformation_mode",
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                "tf_crop_and_resize", "tf_half_pixel_for_nn"});
  c.require(c.attrString("mode") != "nearest" || c.attrInt("antialias") == 0,
            "antialias is for the modes linear and cubic: got mode nearest");
  c.require(c.attrString("mode") == "nearest" || (typeBit(c.type(0)) & kFloats) != 0,
            "mode {} interpolates floating-point numbers: got {}. Use mode nearest, or cast", c.attrString("mode"),
            c.type(0));
  Shape out;
  try {
    for (const ResizeAxis &axis : resizeAxes(c.attrs(), c.shape(0))) out.push_back(axis.out);
  } catch (const error &e) {
    c.fail("{}", e.what());
  }
  c.out(0, c.type(0), out);
}

// maps: forwardMaps or gradientMaps.
template <std::vector<AxisTaps> maps(const Attributes &, const Shape &)>
bool keepsAll(const Op &op) {
  const Shape &shape = op.inShape(0);
  if (op.outShape(0) != shape) return false;
  const std::vector<AxisTaps> found = maps(op.attributes(), shape);
  for (size_t axis = 0; axis < found.size(); ++axis)
    if (!found[axis].changesNothing(shape[axis])) return false;
  return true;
}

// Pieces are along an axis whose elements do not change.
bool untouchedPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const Shape &shape = op.inShape(0);
  const auto at = static_cast<size_t>(axis);
  if (cut != 0 || op.outShape(0)[at] != shape[at]) return false;
  if (!forwardMaps(op.attributes(), shape)[at].changesNothing(shape[at])) return false;
  pieces.in[0] = pieces.out[0] = axis;
  if (!op.hasAttr("sizes")) return true;
  for (int i = 0; i < static_cast<int>(op.attrInts("sizes").size()); ++i) {
    const int64_t of = op.hasAttr("axes") ? op.attrInts("axes")[static_cast<size_t>(i)] : i;
    if ((of < 0 ? of + op.inRank(0) : of) == axis) pieces.sizes.emplace_back("sizes", i);
  }
  return true;
}

OpDef &addResizeAttributes(OpDef &row) {
  return row.attrOptional("scales", AttributeType::Floats)
      .attrOptional("sizes", AttributeType::Ints)
      .attrOptional("roi", AttributeType::Floats)
      .attrOptional("axes", AttributeType::Ints)
      .attr("mode", std::string("nearest"))
      .attr("nearest_mode", std::string("round_prefer_floor"))
      .attr("coordinate_transformation_mode", std::string("half_pixel"))
      .attr("keep_aspect_ratio_policy", std::string("stretch"))
      .attr("cubic_coeff_a", -0.75f)
      .attr("exclude_outside", int64_t{0})
      .attr("extrapolation_value", 0.0f)
      .attr("antialias", int64_t{0});
}

OpDef resizeRow() {
  OpDef row("ai.onnx", "Resize", {10, 11, 13, 18, 19});
  row.input("X", kStoredTypes).output("Y");
  return addResizeAttributes(row)
      .infer(inferResize)
      .vjp([](VjpBuilder &b) {
        Attributes attributes = b.attrs();
        attributes.set("fwd_shape", b.inInfo(0).shape());
        b.grad(0, b.emit("ResizeGrad", {b.gradOut(0)}, attributes));
      })
      .layouts(sameChannels<1>)
      .pieces(untouchedPieces)
      .identityIf(keepsAll<forwardMaps>)
      .doc("The input resized along each axis, with interpolation.");
}

OpDef resizeGradientRow() {
  OpDef row("ai.graphcore", "ResizeGrad", {1});
  row.input("grad", kFloats).output("dx").attrRequired("fwd_shape", AttributeType::Ints);
  return addResizeAttributes(row)
      .infer([](InferContext &c) { inferGradientOf(c, "Resize", {forwardInfo(c)}); })
      .traits(Trait::Gradient)
      .notOnnx()
      .vjp([](VjpBuilder &b) {
        Attributes attributes = b.attrs();
        attributes.erase("fwd_shape");
        attributes.set("extrapolation_value", 0.0f);
        b.grad(0, b.emit("Resize", {b.gradOut(0)}, attributes));
      })
      .layouts(sameChannels<1>)
      .identityIf(keepsAll<gradientMaps>)
      .doc("Gradient of Resize: sums over all results that read an element of the input.");
}

}  // namespace

OpDefs resizeOps() { return {resizeRow(), resizeGradientRow()}; }

}  // namespace popart::ops
