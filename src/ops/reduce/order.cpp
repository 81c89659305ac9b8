// Operators that order elements along an axis: ArgMax, ArgMin, TopK, Sort, ReduceMedian. Indices have the integer type
// with ONNX number `index_type` (INT64 = 7 as in ONNX, INT32 = 6 as in PopXL). Among equal elements the smallest index
// is chosen (ArgMax/ArgMin with select_last_index: the largest). NaN counts as larger than every number.
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

DataType indexType(InferContext &c) {
  const DataType type = typeOfAttribute(c, "index_type");
  c.require(type == DataType::INT64 || type == DataType::INT32,
            "attribute 'index_type': got {}, expected int32 or int64", type);
  return type;
}

OpDef argRow(const char *type, const char *doc) {
  return OpDef("ai.onnx", type, {1, 11, 12, 13})
      .input("data", kNumeric)
      .output("reduced")
      .attr("axis", int64_t{0})
      .attr("keepdims", int64_t{1})
      .attr("select_last_index", int64_t{0})
      .attr("index_type", int64_t{7})
      .infer([](InferContext &c) {
        const int64_t axis = c.axis("axis", c.in(0).rank());
        c.require(c.shape(0)[axis] > 0, "the axis has no elements: got {}, expected at least one along axis {}",
                  c.shape(0), axis);
        c.out(0, indexType(c), reducedShape(c.shape(0), {axis}, c.attrInt("keepdims") != 0));
      })
      .stopsGrad()
      .pieces(reductionPieces)
      .doc(doc);
}

// The positions that the op picked: its second output, or the same op again if it was made without that output.
TensorIndex positions(VjpBuilder &b) {
  if (b.op().hasOutput(1)) return b.out(1);
  return b.emitMany(b.op().def().base().type(), {b.in(0)}, 2, b.attrs())[1];
}

// The gradient of values picked along an axis: it is added at their original positions.
void emitPickGradient(VjpBuilder &b) {
  if (!b.hasGradOut(0)) return;
  b.grad(0, b.emit(b.op().def().base().type() + "Grad", {b.gradOut(0), positions(b)},
                   {{"fwd_shape", b.inInfo(0).shape()}, {"axis", axisOf(b.attrs(), b.inInfo(0).rank())}}));
}

// The gradient's size along the axis is TopK's k.
void inferPickGradient(InferContext &c, const std::string &forward) {
  const TensorInfo dx = forwardInfo(c);
  const int64_t axis = c.axis("axis", dx.rank());
  c.require(c.in(0).rank() == dx.rank(), "gradient and fwd_shape differ in rank: got {} and {}", c.shape(0),
            dx.shape());
  Attributes more{{"index_type", int64_t{toOnnxDataType(c.type(1))}}};
  if (forward == "TopK") more.set("k", c.shape(0)[axis]);
  ForwardOp(c, forward, {dx}, more, 2).gives(0, 0).gives(1, 1);
  c.out(0, dx);
}

OpDef pickGradientRow(const std::string &forward) {
  return OpDef("ai.graphcore", forward + "Grad", {1})
      .input("grad", kNumeric)
      .input("indices", kIndices)
      .output("dx")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .attrRequired("axis", AttributeType::Int)
      .infer([forward](InferContext &c) { inferPickGradient(c, forward); })
      .traits(Trait::Gradient)
      .notOnnx()
      .decompose([](DecomposeBuilder &b) {
        TensorIndex zeros = emitZeros(b, b.outInfo(0).dataType(), b.outInfo(0).shape());
        b.result(0, b.emit("ScatterElements", {zeros, b.in(1), b.in(0)},
                           {{"axis", b.attrs().getAttribute<int64_t>("axis")}, {"reduction", std::string("add")}}));
      })
      .pieces(otherAxisPieces)
      .doc("Gradient of selected values.");
}

OpDef topKRow() {
  return OpDef("ai.onnx", "TopK", {1, 10, 11, 24})
      .input("x", kNumeric)
      .output("values")
      .output("indices", Arity::Optional)
      .attr("axis", int64_t{-1})
      .attr("largest", int64_t{1})
      .attr("sorted", int64_t{1})
      .attr("index_type", int64_t{7})
      .attrRequired("k", AttributeType::Int)
      .constInput(1, "k", 10)
      .infer([](InferContext &c) {
        const int64_t axis = c.axis("axis", c.in(0).rank());
        const int64_t k = c.attrInt("k");
        Shape shape = c.shape(0);
        c.require(k >= 0 && k <= shape[axis], "k is out of range: got {}, expected 0 to {} (the size of axis {})", k,
                  shape[axis], axis);
        shape[axis] = k;
        c.out(0, c.type(0), shape);
        c.out(1, indexType(c), shape);
      })
      .vjp(emitPickGradient)
      .pieces(otherAxisPieces)
      .doc("The k largest (or smallest) elements along an axis, in order, and their positions.");
}

OpDef sortRow() {
  return OpDef("ai.graphcore", "Sort", {1})
      .input("x", kNumeric)
      .output("values")
      .output("indices", Arity::Optional)
      .attr("axis", int64_t{-1})
      .attr("descending", int64_t{0})
      .attr("stable", int64_t{0})
      .attr("index_type", int64_t{6})
      .infer([](InferContext &c) {
        c.axis("axis", c.in(0).rank());
        c.out(0, c.in(0));
        c.out(1, indexType(c), c.shape(0));
      })
      .vjp(emitPickGradient)
      .pieces(otherAxisPieces)
      .doc("Elements in order along an axis, and their positions. Always stable.");
}

OpDef medianRow() {
  return OpDef("ai.graphcore", "ReduceMedian", {1})
      .input("data", kNumeric)
      .output("values")
      .output("indices", Arity::Optional)
      .attrOptional("axes", AttributeType::Ints)
      .attr("keepdims", int64_t{1})
      .attr("index_type", int64_t{6})
      .infer([](InferContext &c) {
        const auto axes = reductionAxes(c);
        for (int64_t axis : axes) {
          c.require(c.shape(0)[axis] > 0,
                    "there is no median of no elements: got {}, expected at least one along axis {}", c.shape(0), axis);
        }
        const Shape shape = reducedShape(c.shape(0), axes, c.attrInt("keepdims") != 0);
        c.out(0, c.type(0), shape);
        c.out(1, indexType(c), shape);
      })
      .vjp([](VjpBuilder &b) {
        if (!b.hasGradOut(0)) return;
        b.grad(0, b.emit("ReduceMedianGrad", {b.gradOut(0), positions(b)},
                         {{"fwd_shape", b.inInfo(0).shape()}, {"axes", reductionAxes(b.attrs(), b.inInfo(0).rank())}}));
      })
      .pieces(reductionPieces)
      .doc("Lower median, and its position in the reduced axes, which are flattened in order.");
}

// Moves the reduced axes to the end, scatters into them as one axis and moves them back.
OpDef medianGradientRow() {
  return OpDef("ai.graphcore", "ReduceMedianGrad", {1})
      .input("grad", kNumeric)
      .input("indices", kIndices)
      .output("dx")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .attrRequired("axes", AttributeType::Ints)
      .infer([](InferContext &c) {
        const TensorInfo dx = forwardInfo(c);
        const Attributes more{{"keepdims", int64_t{c.in(0).rank() == dx.rank()}},
                              {"index_type", int64_t{toOnnxDataType(c.type(1))}}};
        ForwardOp(c, "ReduceMedian", {dx}, more, 2).gives(0, 0).gives(1, 1);
        c.out(0, dx);
      })
      .traits(Trait::Gradient)
      .notOnnx()
      .decompose([](DecomposeBuilder &b) {
        const Shape &shape = b.outInfo(0).shape();
        const auto axes = reductionAxes(b.attrs(), static_cast<int64_t>(shape.size()));
        std::vector<int64_t> order;
        for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
          if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
        }
        const int64_t last = static_cast<int64_t>(order.size());
        order.insert(order.end(), axes.begin(), axes.end());
        Shape moved, flat, picked, back(order.size());
        for (size_t i = 0; i < order.size(); ++i) {
          moved.push_back(shape[order[i]]);
          back[order[i]] = static_cast<int64_t>(i);
        }
        flat.assign(moved.begin(), moved.begin() + last);
        picked = flat;
        flat.push_back(elementCount(shape) == 0 ? 0 : elementCount(Shape(moved.begin() + last, moved.end())));
        picked.push_back(1);
        TensorIndex t = b.emit("ScatterElements",
                               {emitZeros(b, b.outInfo(0).dataType(), flat), emitReshape(b, b.in(1), picked),
                                emitReshape(b, b.in(0), picked)},
                               {{"axis", last}});
        b.result(0, b.emit("Transpose", {emitReshape(b, t, moved)}, {{"perm", back}}));
      })
      .doc("Gradient of ReduceMedian.");
}

}  // namespace

OpDefs orderOps() {
  return {argRow("ArgMax", "Position of the largest element along an axis."),
          argRow("ArgMin", "Position of the smallest element along an axis."),
          topKRow(),
          pickGradientRow("TopK"),
          sortRow(),
          pickGradientRow("Sort"),
          medianRow(),
          medianGradientRow()};
}

}  // namespace popart::ops
