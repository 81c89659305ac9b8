// Operators that read elements at positions given by an index tensor: Gather, PopartTiedGather, GatherElements,
// GatherND, OneHot. Negative indices count from the end; an index that is out of range ends the run. With zero_OOR = 1
// negative indices are out of range too, and such an index reads zeros and passes no gradient.
#include <algorithm>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;

// group_size g > 1: dimension 0 of both tensors is the group; each group gathers only its own elements.
void inferGather(InferContext &c) {
  const int64_t rank = c.in(0).rank(), group = c.attrInt("group_size");
  const int64_t axis = c.axis("axis", rank);
  Shape indices = c.shape(1);
  c.require(group >= 1, "group_size is not positive: got {}, expected 1 or more", group);
  if (group > 1) {
    c.require(axis != 0, "the axis is the group's: got axis 0 with group_size {}, expected another axis", group);
    c.require(c.shape(0)[0] == group && !indices.empty() && indices[0] == group,
              "dimension 0 is not the group: got {} and {}, expected {} for both", c.shape(0), indices, group);
    indices.erase(indices.begin());
  }
  Shape to = c.shape(0);
  to.erase(to.begin() + axis);
  to.insert(to.begin() + axis, indices.begin(), indices.end());
  c.out(0, c.type(0), to);
}

// Pieces are slices of the data, or positions.
bool gatheredPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  if (op.attrInt("group_size") > 1) return false;
  const int along = static_cast<int>(axisOf(op.attributes(), op.inRank(0))), positions = op.inRank(1);
  if (cut == 0 && axis == along) return false;
  pieces.in[static_cast<size_t>(cut)] = axis;
  pieces.out[0] = cut == 1 ? along + axis : axis < along ? axis : axis - 1 + positions;
  return true;
}

OpDef gatherRow(const char *domain, const char *type, std::vector<OpVersion> versions, const char *gradient) {
  return OpDef(domain, type, std::move(versions))
      .input("data", kStoredTypes)
      .input("indices", kIndices)
      .slots(Slot::Parameter, {0})
      .output("output")
      .attr("axis", int64_t{0})
      .attr("group_size", int64_t{1})
      .attr("zero_OOR", int64_t{0})
      .infer(inferGather)
      .precision(Precision::Follows)
      .pieces(gatheredPieces)
      .cost(movesData())
      .vjp([gradient](VjpBuilder &b) {
        Attributes attributes = b.attrs();
        attributes.set("fwd_shape", b.inInfo(0).shape());
        b.grad(0, b.emit(gradient, {b.gradOut(0), b.in(1)}, attributes));
      });
}

OpDef gatherGradientRow(const char *type) {
  return OpDef("ai.graphcore", type, {1})
      .input("grad", kNumeric)
      .input("indices", kIndices)
      .output("dx")
      .attr("axis", int64_t{0})
      .attr("group_size", int64_t{1})
      .attr("zero_OOR", int64_t{0})
      .attrRequired("fwd_shape", AttributeType::Ints)
      .infer([](InferContext &c) {
        inferGradientOf(c, "Gather", {forwardInfo(c), c.in(1)});
      })
      .traits(Trait::Gradient)
      .vjp([](VjpBuilder &b) {
        Attributes attributes = b.attrs();
        attributes.erase("fwd_shape");
        b.grad(0, b.emit("Gather", {b.gradOut(0), b.in(1)}, attributes));
      })
      .notOnnx()
      .doc("Gradient of Gather: sums each slice into the position it was read from.");
}

void addGather(OpDefs &rows) {
  rows.push_back(gatherRow("ai.onnx", "Gather", {1, 11, 13}, "GatherGrad")
                     .role(Role::Gather)
                     .doc("Slices of data along an axis, at the positions of indices."));
  rows.push_back(gatherGradientRow("GatherGrad").role(Role::GatherGrad));
  rows.push_back(gatherRow("ai.graphcore", "PopartTiedGather", {1}, "TiedGatherGrad")
                     .notOnnx()
                     .decompose([](DecomposeBuilder &b) {
                       b.result(0, b.emit("Gather", {b.in(0), b.in(1)}, b.attrs()));
                     })
                     .doc("Gather whose data also feeds a matrix product."));
  rows.push_back(gatherGradientRow("TiedGatherGrad").decompose([](DecomposeBuilder &b) {
    b.result(0, b.emit("GatherGrad", {b.in(0), b.in(1)}, b.attrs()));
  }));
  rows.push_back(OpDef("ai.graphcore", "GroupedGather", {1})
                     .input("data", kAllTypes)
                     .input("indices", kIndices)
                     .slots(Slot::Parameter, {0})
                     .output("output")
                     .attr("axis", int64_t{0})
                     .attr("group_size", int64_t{1})
                     .attr("zero_OOR", int64_t{0})
                     .infer(inferGather)
                     .pieces(gatheredPieces)
                     .precision(Precision::Follows)
                     .cost(movesData())
                     .decompose([](DecomposeBuilder &b) {
                       b.result(0, b.emit("Gather", {b.in(0), b.in(1)}, b.attrs()));
                     })
                     .vjp([](VjpBuilder &b) {
                       Attributes attributes = b.attrs();
                       attributes.set("fwd_shape", b.inInfo(0).shape());
                       b.grad(0, b.emit("GatherGrad", {b.gradOut(0), b.in(1)}, attributes));
                     })
                     .doc("Gather within each group; dimension 0 of both tensors is the group."));
}

void addGatherElements(OpDefs &rows) {
  rows.push_back(
      OpDef("ai.onnx", "GatherElements", {11, 13})
          .input("data", kStoredTypes)
          .input("indices", kIndices)
          .slots(Slot::Parameter, {0})
          .precision(Precision::Follows)
          .output("output")
          .attr("axis", int64_t{0})
          .infer([](InferContext &c) {
            const int64_t axis = c.axis("axis", c.in(0).rank());
            c.require(c.in(1).rank() == c.in(0).rank(), "ranks differ: got {} and {}, expected equal ranks", c.shape(0),
                      c.shape(1));
            for (int64_t d = 0; d < c.in(0).rank(); ++d) {
              c.require(d == axis || c.shape(1)[d] <= c.shape(0)[d],
                        "indices are larger than data outside axis {}: got {} for data {}", axis, c.shape(1),
                        c.shape(0));
            }
            c.out(0, c.type(0), c.shape(1));
          })
          .vjp([](VjpBuilder &b) {
            b.grad(0, b.emit("GatherElementsGrad", {b.gradOut(0), b.in(1)},
                             {{"axis", axisOf(b.attrs(), b.inInfo(0).rank())}, {"fwd_shape", b.inInfo(0).shape()}}));
          })
          .pieces(otherAxisPieces)
          .doc("Elements of data along an axis, at the position that indices has for each element."));
  rows.push_back(
      OpDef("ai.graphcore", "GatherElementsGrad", {1})
          .input("grad", kNumeric)
          .input("indices", kIndices)
          .output("dx")
          .attrRequired("axis", AttributeType::Int)
          .attrRequired("fwd_shape", AttributeType::Ints)
          .infer([](InferContext &c) {
            inferGradientOf(c, "GatherElements", {forwardInfo(c), c.in(1)});
          })
          .traits(Trait::Gradient)
          .notOnnx()
          .decompose([](DecomposeBuilder &b) {
            TensorIndex zeros = emitZeros(b, b.outInfo(0).dataType(), b.outInfo(0).shape());
            b.result(0, b.emit("ScatterElements", {zeros, b.in(1), b.in(0)},
                               {{"axis", b.attrs().getAttribute<int64_t>("axis")}, {"reduction", std::string("add")}}));
          })
          .pieces(otherAxisPieces)
          .doc("Gradient of GatherElements."));
}

void inferGatherND(InferContext &c) {
  const int64_t batch = c.attrInt("batch_dims");
  const Shape &data = c.shape(0), &indices = c.shape(1);
  c.require(!indices.empty(), "indices is a scalar: got rank 0, expected rank 1 or more");
  c.require(batch >= 0 && batch < static_cast<int64_t>(std::min(data.size(), indices.size())),
            "batch_dims is out of range: got {} for {} and {}", batch, data, indices);
  const int64_t depth = indices.back();
  c.require(depth >= 1 && batch + depth <= static_cast<int64_t>(data.size()),
            "the last dimension of indices does not fit data: got {} for data {}", indices, data);
  c.require(std::equal(data.begin(), data.begin() + batch, indices.begin()),
            "batch dimensions differ: got {} and {}, expected {} equal ones", data, indices, batch);
  Shape to(indices.begin(), indices.end() - 1);
  to.insert(to.end(), data.begin() + batch + depth, data.end());
  c.out(0, c.type(0), to);
}

// Pieces are batches, positions, or the elements at each coordinate.
bool coordinatePieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const int batch = static_cast<int>(op.attrInt("batch_dims")), positions = op.inRank(1) - 1;
  const int firstKept = batch + static_cast<int>(op.inShape(1).back());
  if (axis < batch) {
    pieces.in[0] = pieces.in[1] = pieces.out[0] = axis;
    return true;
  }
  if (cut == 1 ? axis == positions : axis < firstKept) return false;
  pieces.in[static_cast<size_t>(cut)] = axis;
  pieces.out[0] = cut == 1 ? axis : positions + axis - firstKept;
  return true;
}

void addGatherND(OpDefs &rows) {
  rows.push_back(OpDef("ai.onnx", "GatherND", {11, 12, 13})
                     .input("data", kStoredTypes)
                     .input("indices", kIndices)
                     .slots(Slot::Parameter, {0})
                     .output("output")
                     .attr("batch_dims", int64_t{0})
                     .infer(inferGatherND)
                     .precision(Precision::Follows)
                     .pieces(coordinatePieces)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("GatherNDGrad", {b.gradOut(0), b.in(1)},
                                        {{"batch_dims", b.attrs().getAttribute<int64_t>("batch_dims")},
                                         {"fwd_shape", b.inInfo(0).shape()}}));
                     })
                     .doc("Slices of data at coordinates given by the last dimension of indices."));
  rows.push_back(OpDef("ai.graphcore", "GatherNDGrad", {1})
                     .input("grad", kNumeric)
                     .input("indices", kIndices)
                     .output("dx")
                     .attrRequired("batch_dims", AttributeType::Int)
                     .attrRequired("fwd_shape", AttributeType::Ints)
                     .infer([](InferContext &c) {
                       inferGradientOf(c, "GatherND", {forwardInfo(c), c.in(1)});
                     })
                     .traits(Trait::Gradient)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("GatherND", {b.gradOut(0), b.in(1)},
                                        {{"batch_dims", b.attrs().getAttribute<int64_t>("batch_dims")}}));
                     })
                     .notOnnx()
                     .doc("Gradient of GatherND: sums each slice into the position it was read from."));
}

void inferOneHot(InferContext &c) {
  const int64_t rank = c.in(0).rank() + 1, depth = c.attrInt("depth");
  const int64_t axis = c.axis("axis", rank);
  c.require(depth >= 0, "depth is negative: got {}, expected 0 or more", depth);
  c.require(c.in(1).nelms() == 2, "values does not hold (off, on): got {}, expected shape [2]", c.shape(1));
  Shape to = c.shape(0);
  to.insert(to.begin() + axis, depth);
  c.out(0, c.type(1), to);
}

void addOneHot(OpDefs &rows) {
  rows.push_back(OpDef("ai.onnx", "OneHot", {9, 11})
                     .input("indices", kNumeric)
                     .input("values", kStoredTypes)
                     .slots(Slot::Setting, {1})
                     .output("output")
                     .attr("axis", int64_t{-1})
                     .attrRequired("depth", AttributeType::Int)
                     .constInput(1, "depth", 9)
                     .infer(inferOneHot)
                     .pieces([](const Op &op, InIndex cut, int axis, Pieces &pieces) {
                       if (cut != 0) return false;
                       pieces.in[0] = axis;
                       pieces.out[0] = axis < axisOf(op.attributes(), op.outRank(0)) ? axis : axis + 1;
                       return true;
                     })
                     .vjp([](VjpBuilder &b) {
                       if (!b.wants(1)) return;
                       b.grad(1, b.emit("OneHotGrad", {b.gradOut(0), b.in(0)}, b.attrs()));
                     })
                     .doc("values[1] at each index along a new axis of size depth, values[0] elsewhere; an index out "
                          "of range makes a row of values[0]."));
  rows.push_back(
      OpDef("ai.graphcore", "OneHotGrad", {1})
          .input("grad", kNumeric)
          .input("indices", kNumeric)
          .output("dvalues")
          .attrRequired("axis", AttributeType::Int)
          .attrRequired("depth", AttributeType::Int)
          .infer([](InferContext &c) {
            const TensorInfo values(c.type(0), {2});
            ForwardOp(c, "OneHot", {c.in(1), values}).gives(0, 0);
            c.out(0, values);
          })
          .traits(Trait::Gradient)
          .notOnnx()
          .decompose([](DecomposeBuilder &b) {
            Expression g(b, b.in(0));
            TensorIndex pair = b.emit("Concat", {emitReshape(b, g.number(0), {1}), emitReshape(b, g.number(1), {1})},
                                      {{"axis", int64_t{0}}});
            Expression mask(b, b.emit("OneHot", {b.in(1), pair}, b.attrs()));
            const Attributes toOne{{"keepdims", int64_t{0}}};
            Expression on = (g * mask).apply("ReduceSum", toOne);
            Expression off = g.apply("ReduceSum", toOne) - on;
            b.result(0, b.emit("Concat", {emitReshape(b, off, {1}), emitReshape(b, on, {1})}, {{"axis", int64_t{0}}}));
          })
          .doc("Gradient of OneHot for its values."));
}

}  // namespace

OpDefs gatherOps() {
  OpDefs rows;
  addGather(rows);
  addGatherElements(rows);
  addGatherND(rows);
  addOneHot(rows);
  return rows;
}

}  // namespace popart::ops
