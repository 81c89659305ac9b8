// Operators that write elements to positions given by an index tensor: Scatter, ScatterElements, ScatterND,
// ScatterReduce. Negative indices count from the end; an index that is out of range ends the run. If several updates
// write one position without a reduction, the last one (in C order of the updates) is kept.
#include <algorithm>
#include <array>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/index/scatter_layout.hpp"
#include "ops/rules.hpp"
#include "ops/ties.hpp"

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;
using E = Expression;

void checkReduction(const InferContext &c) {
  const std::string &r = c.attrString("reduction");
  c.require(r == "none" || r == "add" || r == "mul" || r == "max" || r == "min",
            "unknown reduction: got '{}', expected none, add, mul, max or min", r);
  c.require(r == "none" || (typeBit(c.type(0)) & kAllTypes) != 0,
            "elements of type {} are moved only: got reduction {}", c.type(0), r);
}

void inferScatterElements(InferContext &c) {
  const int64_t axis = c.axis("axis", c.in(0).rank());
  for (int input : {1, 2})
    c.require(c.in(input).rank() == c.in(0).rank(), "ranks differ: got {} for {} and {} for data", c.shape(input),
              input == 1 ? "indices" : "updates", c.shape(0));
  for (int64_t d = 0; d < c.in(0).rank(); ++d) {
    c.require(c.shape(1)[d] <= c.shape(2)[d],
              "indices are larger than updates along axis {}: got {} for updates {}, expected at most their size", d,
              c.shape(1), c.shape(2));
    c.require(d == axis || c.shape(1)[d] <= c.shape(0)[d],
              "indices are larger than data outside axis {}: got {} for data {}", axis, c.shape(1), c.shape(0));
  }
  if (c.hasAttr("reduction")) checkReduction(c);
  c.out(0, c.in(0));
}

// The leading part of updates that has one index per element; the rest is not used.
TensorIndex usedUpdates(OpEmitter &e, TensorIndex updates, const Shape &indices, bool isPerElement) {
  if (!isPerElement || e.info(updates).shape() == indices) return updates;
  return e.emit("Slice", {updates}, {{"starts", Ints(indices.size(), 0)}, {"ends", indices}});
}

// Extends a gradient of the used updates to one of all updates, with zeros for unused updates.
TensorIndex asAllUpdates(OpEmitter &e, TensorIndex used, const Shape &updates) {
  const Shape &shape = e.info(used).shape();
  if (shape == updates) return used;
  Ints pads(2 * updates.size(), 0);
  for (size_t d = 0; d < updates.size(); ++d) pads[updates.size() + d] = updates[d] - shape[d];
  return e.emit("Pad", {used}, {{"pads", pads}});
}

// Reads updates back from a tensor like the output: GatherElements or GatherND with its attributes, and the scatter
// that it inverts.
struct ReadBack {
  const char *type, *inverse;
  Attributes attributes;
};
ReadBack readBack(const VjpBuilder &b) {
  if (!b.attrs().hasAttribute("axis")) return {"GatherND", "ScatterND", {}};
  return {"GatherElements", "ScatterElements", {{"axis", b.attrs().getAttribute<int64_t>("axis")}}};
}

// The values for gradients of a reduction of several values to one: the data in place, and the updates read back.
struct ReducedValues {
  E gradient, data, updates;
  ReadBack read;
  TensorIndex indices;
  E atUpdates(E inPlace) const { return inPlace.apply(read.type, E(inPlace.emitter(), indices), read.attributes); }
  // The result of the same scatter for other values.
  E scattered(E ofData, E ofUpdates, const char *reduction) const {
    Attributes attributes = read.attributes;
    attributes.set("reduction", std::string(reduction));
    OpEmitter &e = ofData.emitter();
    return {e, e.emit(read.inverse, {ofData, indices, ofUpdates}, std::move(attributes))};
  }
};

// All values equal to the extreme get the same share of its gradient.
std::array<E, 2> extremeGradients(const ReducedValues &v, E y) {
  E isData = v.data.apply("Equal", y), isUpdate = v.updates.apply("Equal", v.atUpdates(y));
  const DataType type = v.gradient.type();
  E share = evenShare(v.gradient, v.scattered(tieCount(isData, type), tieCount(isUpdate, type), "add"));
  return {select(isData, share, share.number(0)), select(isUpdate, v.atUpdates(share), share.number(0))};
}

// The gradient of a value is the product of the other values, computed with zeros handled separately. It uses DOUBLE,
// which can hold products of values whose product float32 cannot hold.
std::array<E, 2> productGradients(const ReducedValues &v) {
  constexpr DataType kWide = DataType::DOUBLE;
  const auto isZero = [](E x) { return x.apply("Equal", x.number(0)); };
  const auto without0 = [&](E x) { return select(isZero(x), x.number(1), x); };
  E data = cast(v.data, kWide), updates = cast(v.updates, kWide), g = cast(v.gradient, kWide);
  E product = v.scattered(without0(data), without0(updates), "mul");
  E zeros = v.scattered(cast(isZero(data), kWide), cast(isZero(updates), kWide), "add");
  const auto slope = [&](E x, E ofAll, E zerosOfAll) {
    E others = zerosOfAll - cast(isZero(x), kWide);
    return select(isZero(others), ofAll / without0(x), x.number(0));
  };
  return {cast(g * slope(data, product, zeros), v.gradient.type()),
          cast(v.atUpdates(g) * slope(updates, v.atUpdates(product), v.atUpdates(zeros)), v.gradient.type())};
}

// For add, all gradients pass unchanged.
void scatterReductionVjp(VjpBuilder &b, const std::string &reduction) {
  const ReadBack read = readBack(b);
  E g(b, b.gradOut(0));
  if (reduction == "add") {
    if (b.wants(0)) b.grad(0, b.emit("IdentityGrad", {g}));
    if (b.wants(2)) b.grad(2, asAllUpdates(b, b.emit(read.type, {g, b.in(1)}, read.attributes), b.inInfo(2).shape()));
    return;
  }
  const TensorIndex updates = usedUpdates(b, b.in(2), b.inInfo(1).shape(), b.attrs().hasAttribute("axis"));
  const ReducedValues values{g, E(b, b.in(0)), E(b, updates), read, b.in(1)};
  const auto [ofData, ofUpdates] =
      reduction == "mul" ? productGradients(values) : extremeGradients(values, E(b, b.out(0)));
  if (b.wants(0)) b.grad(0, ofData);
  if (b.wants(2)) b.grad(2, asAllUpdates(b, ofUpdates, b.inInfo(2).shape()));
}

void scatterVjp(VjpBuilder &b) {
  const std::string reduction = b.attrs().getAttribute<std::string>("reduction", "none");
  if (reduction != "none") return scatterReductionVjp(b, reduction);
  const ReadBack read = readBack(b);
  const std::string prefix = b.attrs().hasAttribute("axis") ? "Scatter" : "ScatterND";
  if (b.wants(0)) b.grad(0, b.emit(prefix + "DataGrad", {b.gradOut(0), b.in(1)}, read.attributes));
  if (b.wants(2))
    b.grad(2, asAllUpdates(b, b.emit(prefix + "UpdateGrad", {b.gradOut(0), b.in(1)}, read.attributes),
                           b.inInfo(2).shape()));
}

OpDef scatterRow(const char *type, std::vector<OpVersion> versions) {
  return OpDef("ai.onnx", type, std::move(versions))
      .input("data", kStoredTypes, "T")
      .input("indices", kIndices)
      .input("updates", kStoredTypes, "T")
      .output("output")
      .vjp(scatterVjp);
}

// The infos of data and updates of the ScatterElements whose gradient is input 0 and whose indices are input 1.
std::vector<TensorInfo> scatteredElements(InferContext &c) {
  const TensorInfo updates(c.type(0), c.shape(1));
  ForwardOp(c, "ScatterElements", {c.in(0), c.in(1), updates}).gives(0, 0);
  return {c.in(0), updates};
}

OpDef scatterGradientRow(const char *type, InferFn infer, DecomposeFn decompose) {
  return OpDef("ai.graphcore", type, {1})
      .input("grad", kNumeric)
      .input("indices", kIndices)
      .output("dx")
      .infer(std::move(infer))
      .traits(Trait::Gradient)
      .notOnnx()
      .decompose(std::move(decompose))
      .doc("Gradient of a scatter without reduction.");
}

void addScatterElements(OpDefs &rows) {
  rows.push_back(scatterRow("Scatter", {9})
                     .attr("axis", int64_t{0})
                     .infer(inferScatterElements)
                     .doc("ScatterElements without reduction."));
  rows.push_back(
      scatterRow("ScatterElements", {11, 13, 16, 18})
          .attr("axis", int64_t{0})
          .attr("reduction", std::string("none"))
          .infer(inferScatterElements)
          .doc("data with each update written to, or combined with, the element at its position along an axis."));
  rows.push_back(scatterGradientRow(
                     "ScatterDataGrad", [](InferContext &c) { c.out(0, scatteredElements(c)[0]); },
                     [](DecomposeBuilder &b) {
                       TensorIndex zeros = emitZeros(b, b.outInfo(0).dataType(), b.inInfo(1).shape());
                       b.result(0, b.emit("ScatterElements", {b.in(0), b.in(1), zeros}, b.attrs()));
                     })
                     .attrRequired("axis", AttributeType::Int));
  rows.push_back(scatterGradientRow(
                     "ScatterUpdateGrad", [](InferContext &c) { c.out(0, scatteredElements(c)[1]); },
                     [](DecomposeBuilder &b) {
                       b.result(0, b.emit("GatherElements", {b.in(0), b.in(1)}, b.attrs()));
                     })
                     .attrRequired("axis", AttributeType::Int));
}

Shape updateShapeND(const InferContext &c, const Shape &data, const Shape &indices) {
  c.require(!indices.empty() && indices.back() <= static_cast<int64_t>(data.size()) && indices.back() >= 1,
            "the last dimension of indices does not fit data: got {} for data {}", indices, data);
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + indices.back(), data.end());
  return shape;
}

void addScatterND(OpDefs &rows) {
  rows.push_back(scatterRow("ScatterND", {11, 13, 16, 18})
                     .attr("reduction", std::string("none"))
                     .infer([](InferContext &c) {
                       const Shape expected = updateShapeND(c, c.shape(0), c.shape(1));
                       c.require(c.shape(2) == expected, "updates do not fit indices: got {}, expected {}", c.shape(2),
                                 expected);
                       checkReduction(c);
                       c.out(0, c.in(0));
                     })
                     .doc("data with slices of updates written to, or combined with, the slices at the coordinates in "
                          "the last dimension of indices."));
  rows.push_back(scatterGradientRow(
      "ScatterNDDataGrad",
      [](InferContext &c) {
        updateShapeND(c, c.shape(0), c.shape(1));
        c.out(0, c.in(0));
      },
      [](DecomposeBuilder &b) {
        const Shape &data = b.inInfo(0).shape(), &indices = b.inInfo(1).shape();
        Shape shape(indices.begin(), indices.end() - 1);
        shape.insert(shape.end(), data.begin() + indices.back(), data.end());
        b.result(0, b.emit("ScatterND", {b.in(0), b.in(1), emitZeros(b, b.outInfo(0).dataType(), shape)}));
      }));
  rows.push_back(scatterGradientRow(
      "ScatterNDUpdateGrad", [](InferContext &c) { c.out(0, c.type(0), updateShapeND(c, c.shape(0), c.shape(1))); },
      [](DecomposeBuilder &b) {
        b.result(0, b.emit("GatherND", {b.in(0), b.in(1)}));
      }));
}

OpDef &withReduceAttributes(OpDef &row) {
  return row.attrRequired("axis_size", AttributeType::Int)
      .attr("axis", int64_t{-1})
      .attr("reduction", std::string("Sum"))
      .attr("enable_index_broadcast", int64_t{1})
      .attr("group_size", int64_t{1});
}

void inferScatterReduce(InferContext &c) {
  const int64_t rank = c.in(0).rank(), axis = c.axis("axis", rank), group = c.attrInt("group_size");
  const std::string &r = c.attrString("reduction");
  c.require(r == "Sum" || r == "Max" || r == "Min" || r == "Mul" || r == "None",
            "unknown reduction: got '{}', expected Sum, Max, Min, Mul or None", r);
  c.require(c.attrInt("axis_size") >= 1, "axis_size is not positive: got {}, expected 1 or more",
            c.attrInt("axis_size"));
  c.require(group == 1 || (group > 1 && axis != 0 && c.shape(0)[0] == group),
            "dimension 0 is not the group: got {} with group_size {} and axis {}", c.shape(0), group, axis);
  Shape to;
  try {
    to = scatterLayout(c.attrs(), c.shape(0), c.shape(1)).window;
  } catch (const error &e) {
    c.fail("{}", e.what());
  }
  if (!c.hasIn(2)) {
    to[axis] = c.attrInt("axis_size");
    return c.out(0, c.type(0), to);
  }
  bool holds = c.in(2).rank() == rank;
  for (int64_t d = 0; holds && d < rank; ++d) holds = d == axis || c.shape(2)[d] >= to[d];
  c.require(holds, "initial values do not fit: got {}, expected at least {} outside axis {}", c.shape(2), to, axis);
  c.out(0, c.in(2));
}

void addScatterReduce(OpDefs &rows) {
  OpDef row("ai.graphcore", "ScatterReduce", {1});
  row.input("src", kNumeric, "T")
      .input("indices", kIndices)
      .input("initial_values", kNumeric, "T", Arity::Optional)
      .output("out");
  withReduceAttributes(row)
      .infer(inferScatterReduce)
      .onnx("ai.graphcore", "GroupedScatterReduce", {1})
      .vjp([](VjpBuilder &b) {
        const bool initial = b.hasIn(2);
        auto grads =
            b.emitMany("ScatterReduceGradOp", {b.gradOut(0), b.in(1), b.in(0), initial ? b.in(2) : TensorIndex{}},
                       initial ? 2 : 1, b.attrs());
        b.grad(0, grads[0]);
        if (initial) b.grad(2, grads[1]);
      })
      .doc(
          "out[i] = reduction of all src whose index is i, along an axis, and of the initial value. Elements without "
          "an index have the initial value; without initial values Sum and None start at 0, Mul at 1, and Max and Min "
          "are 0 where there is no index.");
  rows.push_back(row);
  OpDef grad("ai.graphcore", "ScatterReduceGradOp", {1});
  grad.input("grad", kNumeric, "T")
      .input("indices", kIndices)
      .input("src", kNumeric, "T")
      .input("initial_values", kNumeric, "T", Arity::Optional);
  grad.output("dsrc").output("dinitial", Arity::Optional);
  withReduceAttributes(grad)
      .infer([](InferContext &c) {
        ForwardOp(c, "ScatterReduce", {c.in(2), c.in(1), c.hasIn(3) ? c.in(3) : TensorInfo()}).gives(0, 0);
        c.out(0, c.in(2));
        if (c.hasIn(3)) c.out(1, c.in(3));
      })
      .traits(Trait::Gradient)
      .notOnnx()
      .doc(
          "Gradient of ScatterReduce for src and initial values. For Max and Min, all values that equal the result "
          "share the gradient evenly.");
  rows.push_back(grad);
}

}  // namespace

ScatterLayout scatterLayout(const Attributes &attributes, const Shape &source, const Shape &indices) {
  const int64_t axis = axisOf(attributes, static_cast<int64_t>(source.size()));
  if (attributes.getAttribute<int64_t>("enable_index_broadcast", 1) == 0) {
    bool fits = indices.size() == source.size();
    for (size_t d = 0; fits && d < source.size(); ++d) fits = indices[d] <= source[d];
    check(fits, "indices do not lie inside src: got {} for src {}, expected its rank and at most its sizes", indices,
          source);
    return {indices, indices};
  }
  if (indices == source) return {source, indices};
  Shape vector(source.size(), 1), used{source[axis]};
  vector[axis] = source[axis];
  if (attributes.getAttribute<int64_t>("group_size", 1) > 1) {
    vector[0] = source[0];
    used.insert(used.begin(), source[0]);
  }
  check(indices == vector || indices == used,
        "indices do not broadcast to src: got {} for src {}, expected the shape of src or {}. Expand the indices",
        indices, source, vector);
  return {source, vector};
}

OpDefs scatterOps() {
  OpDefs rows;
  addScatterElements(rows);
  addScatterND(rows);
  addScatterReduce(rows);
  return rows;
}

}  // namespace popart::ops
