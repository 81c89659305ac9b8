// Resize: another number of elements along each axis, by nearest, linear or cubic interpolation. Axes are independent
// of each other: one after the other is a sum of a few gathered and weighted copies, and the gradient is the same with
// the transposed weights.
#include <algorithm>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/rules.hpp"
#include "ops/shape/resize_taps.hpp"

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;

void requireOneOf(const InferContext &c, const char *name, const std::vector<std::string> &allowed) {
  c.require(std::ranges::find(allowed, c.attrString(name)) != allowed.end(), "{}: got '{}', expected one of {}", name,
            c.attrString(name), allowed);
}

void inferResize(InferContext &c) {
  requireOneOf(c, "mode", {"nearest", "linear", "cubic"});
  requireOneOf(c, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"});
  requireOneOf(c, "coordinate_transformation_mode",
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                "tf_crop_and_resize"});
  c.require(c.attrString("mode") != "nearest" || c.attrInt("antialias") == 0,
            "antialias is for the modes linear and cubic: got mode nearest");
  Shape out;
  try {
    for (const ResizeAxis &axis : resizeAxes(c.attrs(), c.shape(0))) out.push_back(axis.out);
  } catch (const error &e) {
    c.fail("{}", e.what());
  }
  c.out(0, c.type(0), out);
}

Shape with(Shape shape, int axis, const Shape &instead) {
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, instead.begin(), instead.end());
  return shape;
}

// Factors along `axis` of a tensor of `rank` dimensions.
TensorIndex alongAxis(OpEmitter &e, const std::vector<double> &values, DataType type, int axis, int rank) {
  Shape shape(static_cast<size_t>(rank), 1);
  shape[axis] = static_cast<int64_t>(values.size());
  return e.constant(TensorData::fromDoubles(TensorInfo(type, shape), values));
}

TensorIndex addTap(OpEmitter &e, TensorIndex x, int axis, const AxisTaps &taps, int64_t k) {
  Ints index;
  std::vector<double> weight;
  for (int64_t o = 0; o < taps.rows(); ++o) {
    index.push_back(taps.index[o * taps.count + k]);
    weight.push_back(taps.weight[o * taps.count + k]);
  }
  const TensorIndex at = e.constant(TensorData::of<int64_t>({taps.rows()}, index));
  const TensorIndex taken = e.emit("Gather", {x, at}, {{"axis", int64_t{axis}}});
  if (taps.selects()) return taken;
  return e.emit("Mul", {taken, alongAxis(e, weight, e.info(x).dataType(), axis, e.info(x).rank())});
}

// Rows that one matrix of at most 16 Mi elements can hold; a row is as long as the axis at worst.
int64_t rowsOfMatrix(int64_t in) { return std::max<int64_t>(1, (int64_t{1} << 24) / std::max<int64_t>(in, 1)); }

// Rows [begin, end) of the map as one product with the part of the axis that they read.
TensorIndex emitProduct(OpEmitter &e, TensorIndex x, int axis, const AxisTaps &taps, int64_t begin, int64_t end) {
  const DataType type = e.info(x).dataType();
  int64_t first = e.info(x).shape()[axis], last = 0;
  for (int64_t i = begin * taps.count; i < end * taps.count; ++i)
    if (taps.weight[i] != 0) first = std::min(first, taps.index[i]), last = std::max(last, taps.index[i] + 1);
  if (first >= last) return emitZeros(e, type, with(e.info(x).shape(), axis, {end - begin}));
  std::vector<double> matrix(static_cast<size_t>((last - first) * (end - begin)));
  for (int64_t i = begin * taps.count; i < end * taps.count; ++i)
    if (taps.weight[i] != 0) matrix[(taps.index[i] - first) * (end - begin) + i / taps.count - begin] += taps.weight[i];
  Ints order;
  for (int64_t i = 0; i < e.info(x).rank(); ++i) order.push_back(i);
  std::swap(order[axis], order.back());  // its own inverse
  const TensorIndex weights =
      e.constant(TensorData::fromDoubles(TensorInfo(type, {last - first, end - begin}), matrix));
  const TensorIndex part = e.emit("Slice", {x}, {{"starts", Ints{first}}, {"ends", Ints{last}}, {"axes", Ints{axis}}});
  const TensorIndex moved = e.emit("Transpose", {part}, {{"perm", order}});
  return e.emit("Transpose", {e.emit("MatMul", {moved, weights}, {})}, {{"perm", order}});
}

TensorIndex emitProducts(OpEmitter &e, TensorIndex x, int axis, const AxisTaps &taps, int64_t rows) {
  std::vector<TensorIndex> parts;
  for (int64_t begin = 0; begin < taps.rows(); begin += rows)
    parts.push_back(emitProduct(e, x, axis, taps, begin, std::min(begin + rows, taps.rows())));
  return parts.size() == 1 ? parts.front() : e.emit("Concat", parts, {{"axis", int64_t{axis}}});
}

// The map along one axis.
TensorIndex emitAxis(OpEmitter &e, TensorIndex x, int axis, const AxisTaps &taps) {
  const Shape shape = e.info(x).shape();
  const int64_t in = shape[axis];
  if (taps.rows() == 0) return emitZeros(e, e.info(x).dataType(), with(shape, axis, {0}));
  if (taps.changesNothing(in)) return x;
  if (const int64_t n = taps.repeats(); n > 0 && n * in == taps.rows()) {
    const TensorIndex apart = emitReshape(e, x, with(shape, axis, {in, 1}));
    const TensorIndex repeated = e.emit("Expand", {apart}, {{"shape", with(shape, axis, {in, n})}});
    return emitReshape(e, repeated, with(shape, axis, {n * in}));
  }
  if (const int64_t n = taps.groups(); n > 0 && n * taps.rows() == in) {
    const TensorIndex apart = emitReshape(e, x, with(shape, axis, {in / n, n}));
    return e.emit("ReduceSum", {apart}, {{"axes", Ints{axis + 1}}, {"keepdims", int64_t{0}}});
  }
  // Long rows (antialiasing, gradients of large scales) are products where these are fewer ops.
  constexpr int64_t kLongRow = 8;
  const int64_t rows = rowsOfMatrix(in);
  const bool multiplies = taps.count > kLongRow && (taps.rows() + rows - 1) / rows < taps.count;
  TensorIndex total = multiplies ? emitProducts(e, x, axis, taps, rows) : addTap(e, x, axis, taps, 0);
  for (int64_t k = 1; !multiplies && k < taps.count; ++k) total = e.emit("Add", {total, addTap(e, x, axis, taps, k)});
  if (taps.offset.empty()) return total;
  return e.emit("Add", {total, alongAxis(e, taps.offset, e.info(x).dataType(), axis, e.info(x).rank())});
}

// What interpolation gave, as a whole number of a type that may be narrower.
TensorIndex emitRounded(OpEmitter &e, TensorIndex x, DataType type) {
  if (isFloatingPoint(type)) return emitCast(e, x, type);
  x = e.emit("NearbyInt", {x});
  const int bits = 8 * static_cast<int>(getDataTypeInfo(type).nbytes);
  if (bits <= 16) {
    const bool isSigned = (typeBit(type) & kSignedInts) != 0;
    const float low = isSigned ? -static_cast<float>(1 << (bits - 1)) : 0.0f;
    x = e.emit("Clip", {x}, {{"min", low}, {"max", low + static_cast<float>((1 << bits) - 1)}});
  }
  return emitCast(e, x, type);
}

// Axes that shrink come first, from the first one on; of those that grow the last one does: its gathers cost most.
std::vector<size_t> cheapestOrder(const std::vector<AxisTaps> &maps, const Shape &shape) {
  std::vector<size_t> shrinking, growing;
  for (size_t axis = 0; axis < maps.size(); ++axis)
    (maps[axis].rows() > shape[axis] ? growing : shrinking).push_back(axis);
  shrinking.insert(shrinking.end(), growing.rbegin(), growing.rend());
  return shrinking;
}

TensorIndex emitMaps(OpEmitter &e, TensorIndex x, const std::vector<AxisTaps> &maps) {
  const DataType type = e.info(x).dataType();
  const bool selects = std::ranges::all_of(maps, [](const AxisTaps &t) { return t.count == 0 || t.selects(); });
  const bool wide = type == DataType::FLOAT || type == DataType::DOUBLE;
  TensorIndex y = selects || wide ? x : emitCast(e, x, DataType::FLOAT);
  for (size_t axis : cheapestOrder(maps, e.info(x).shape())) y = emitAxis(e, y, static_cast<int>(axis), maps[axis]);
  return selects || wide ? y : emitRounded(e, y, type);
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
      .decompose([](DecomposeBuilder &b) {
        std::vector<AxisTaps> maps;
        for (const ResizeAxis &axis : resizeAxes(b.attrs(), b.inInfo(0).shape()))
          maps.push_back(axisTaps(axis, b.attrs()));
        b.result(0, emitMaps(b, b.in(0), maps));
      })
      .doc("The input with another number of elements along each axis, interpolated.");
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
      .decompose([](DecomposeBuilder &b) {
        std::vector<AxisTaps> maps;
        for (const ResizeAxis &axis : resizeAxes(b.attrs(), b.outInfo(0).shape()))
          maps.push_back(transposedTaps(axisTaps(axis, b.attrs()), axis.in));
        b.result(0, emitMaps(b, b.in(0), maps));
      })
      .doc("Gradient of Resize: what each element of the input gave, gathered back.");
}

}  // namespace

OpDefs resizeOps() { return {resizeRow(), resizeGradientRow()}; }

}  // namespace popart::ops
