// Reductions over axes, and ReduceSumTo, which inverts a broadcast. Without the attribute "axes" all axes are reduced,
// with an empty list none (docs/decisions/0036 says when models mean that).
// The gradient of a reduction is expanded over the reduced axes (attribute fwd_shape = shape of the input).
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"
#include "ops/reduce/extremes.hpp"
#include "ops/rules.hpp"
#include "ops/ties.hpp"

namespace popart::ops {
namespace {

using E = Expression;

void inferReduce(InferContext &c) {
  const std::vector<int64_t> axes = reductionAxes(c);
  c.out(0, c.type(0), reducedShape(c.shape(0), axes, c.attrInt("keepdims") != 0));
}

OpDef reduceRow(const char *domain, const char *type, TypeSet types, OpVersion axesInputSince) {
  return OpDef(domain, type, {1, 11, 13, 18})
      .input("data", types)
      .output("reduced")
      .attrOptional("axes", AttributeType::Ints)
      .attr("keepdims", int64_t{1})
      .attr("noop_with_empty_axes", int64_t{0})
      .constInput(1, "axes", axesInputSince)
      .infer(inferReduce)
      .pieces(reductionPieces);
}

// The values that the gradient reads in addition to the incoming gradient: the input x, the output y.
struct ReduceReads {
  bool x = false;
  bool y = false;
};
// How the input was reduced.
struct Reduced {
  Attributes keep;   // of a reduction over the same axes with a result that broadcasts to the input
  double count = 1;  // elements reduced into one
  E by(const char *reduction, E x) const { return x.apply(reduction, keep); }
};
// g and y can already be broadcast to the input's shape.
using Formula = E (*)(E g, E x, E y, const Reduced &);

// The gradient's rank shows whether the forward op kept the reduced dimensions.
void inferReduceGradient(InferContext &c, const std::string &forward, ReduceReads reads) {
  const TensorInfo dx = forwardInfo(c);
  c.require(!reads.x || c.shape(1) == dx.shape(), "fwd_shape is not the shape of x: got {}, expected {}", dx.shape(),
            c.shape(reads.x ? 1 : 0));
  const ForwardOp op(c, forward, {dx}, {{"keepdims", int64_t{c.in(0).rank() == dx.rank()}}});
  op.gives(0, 0);
  if (reads.y) op.gives(0, reads.x ? 2 : 1);
  c.out(0, dx);
}

void addGradient(OpDefs &rows, OpDef row, ReduceReads reads, Formula formula) {
  const std::string type = row.type() + "Grad";
  row.vjp([type, reads](VjpBuilder &b) {
    std::vector<TensorIndex> inputs{b.gradOut(0)};
    if (reads.x) inputs.push_back(b.in(0));
    if (reads.y) inputs.push_back(b.out(0));
    b.grad(0, b.emit(type, inputs,
                     {{"fwd_shape", b.inInfo(0).shape()}, {"axes", reductionAxes(b.attrs(), b.inInfo(0).rank())}}));
  });
  OpDef grad("ai.graphcore", type, {1});
  grad.input("grad", kNumeric, "T");
  if (reads.x) grad.input("x", kNumeric, "T");
  if (reads.y) grad.input("y", kNumeric, "T");
  grad.output("dx")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .attrRequired("axes", AttributeType::Ints)
      .infer([forward = row.type(), reads](InferContext &c) { inferReduceGradient(c, forward, reads); })
      .traits(Trait::Gradient)
      .pieces(reductionGradientPieces)
      .notOnnx()
      .doc("Gradient of " + row.type() + ".");
  if (formula) {
    grad.decompose([reads, formula](DecomposeBuilder &b) {
      const Shape shape = b.outInfo(0).shape();
      const auto axes = reductionAxes(b.attrs(), static_cast<int64_t>(shape.size()));
      const Shape kept = reducedShape(shape, axes, true);
      int64_t n = 1;
      for (int64_t axis : axes) n *= shape[axis];
      E g(b, emitReshape(b, b.in(0), kept));
      E x = reads.x ? E(b, b.in(1)) : g;
      E y = reads.y ? E(b, emitReshape(b, b.in(reads.x ? 2 : 1), kept)) : g;
      TensorIndex result = formula(g, x, y, {{{"axes", axes}, {"keepdims", int64_t{1}}}, static_cast<double>(n)});
      b.result(0, b.info(result).shape() == shape ? result : b.emit("Expand", {result}, {{"shape", shape}}));
    });
  }
  rows.push_back(std::move(row));
  rows.push_back(std::move(grad));
}

void addSums(OpDefs &rows) {
  addGradient(rows, reduceRow("ai.onnx", "ReduceSum", kNumeric, 13).layouts(reducedChannels).doc("Sum."), {},
              [](E g, E, E, const Reduced &) { return g; });
  addGradient(rows, reduceRow("ai.onnx", "ReduceMean", kNumeric, 18).layouts(reducedChannels).doc("Mean."), {},
              [](E g, E, E, const Reduced &r) { return g / r.count; });
  addGradient(rows, reduceRow("ai.onnx", "ReduceL1", kNumeric, 18).cost(perElement(2)).doc("Sum of |x|."), {.x = true},
              [](E g, E x, E, const Reduced &) { return g * x.apply("Sign"); });
  addGradient(rows,
              reduceRow("ai.onnx", "ReduceL2", kNumeric, 18)
                  .cost(perElement(2))
                  .doc("Root of the sum of squares; its gradient is 0 where it is 0."),
              {.x = true, .y = true}, [](E g, E x, E y, const Reduced &) {
                E zero = y.apply("Equal", y.number(0));
                return select(zero, g.number(0), g * x / select(zero, y.number(1), y));
              });
  addGradient(rows, reduceRow("ai.onnx", "ReduceSumSquare", kNumeric, 18).cost(perElement(2)).doc("Sum of squares."),
              {.x = true}, [](E g, E x, E, const Reduced &) { return g * (2.0 * x); });
  // The logarithm has fewer digits than the sum, and loses a part that is far smaller than another: both gradients
  // compute from x again.
  addGradient(rows, reduceRow("ai.onnx", "ReduceLogSum", kNumeric, 18).doc("Logarithm of the sum."), {.x = true},
              [](E g, E x, E, const Reduced &r) { return g / r.by("ReduceSum", x); });
  addGradient(
      rows,
      reduceRow("ai.onnx", "ReduceLogSumExp", kNumeric, 18).cost(perElement(4)).doc("Logarithm of the sum of e^x."),
      {.x = true}, [](E g, E x, E, const Reduced &r) {
        E part = exp(x - r.by("ReduceMax", x));
        return part * (g / r.by("ReduceSum", part));
      });
}

// g (rows, 1) times the product of the other elements of each row of x (rows, width > 0). Division fails where an
// element is 0; a binary tree does not: upwards it has the products of pairs, downwards each node's g times its
// partner's product.
E timesOthers(OpEmitter &b, E g, E x) {
  const Shape shape = b.info(x).shape();
  const E ones(b, b.emit("Expand", {x.number(1)}, {{"shape", Shape{shape[0], 1}}}));
  std::vector<E> pairs;         // from the leaves up, (rows, pairs, 2); an odd row ends with 1
  std::vector<int64_t> widths;  // without this 1
  for (int64_t width = shape[1]; width > 1; width = (width + 1) / 2) {
    if (!pairs.empty())
      x = pairs.back().apply("ReduceProd", {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}});
    if (width % 2 != 0) x = x.apply("Concat", ones, {{"axis", int64_t{1}}});
    pairs.emplace_back(b, emitReshape(b, x, {shape[0], (width + 1) / 2, 2}));
    widths.push_back(width);
  }
  for (size_t i = pairs.size(); i-- > 0;) {
    const int64_t count = b.info(pairs[i]).shape()[1];
    const E partners = pairs[i].apply("Reverse", {{"dimensions", std::vector<int64_t>{2}}});
    g = E(b, emitReshape(b, partners * E(b, emitReshape(b, g, {shape[0], count, 1})), {shape[0], 2 * count}));
    if (widths[i] % 2 != 0)
      g = g.apply("Slice", {{"axes", std::vector<int64_t>{1}},
                            {"starts", std::vector<int64_t>{0}},
                            {"ends", std::vector<int64_t>{widths[i]}}});
  }
  return g;
}

// The form with rows, for which a backend may have a kernel; without one it becomes timesOthers.
void decomposeProductGradient(DecomposeBuilder &b) {
  const Shape &shape = b.inInfo(1).shape();
  if (b.inInfo(1).nelms() == 0) return b.result(0, b.emit("Identity", {b.in(1)}));
  const std::vector<int64_t> axes = reductionAxes(b.attrs(), b.inInfo(1).rank());
  const int64_t rows = b.inInfo(0).nelms(), width = b.inInfo(1).nelms() / rows;
  const TensorIndex g = emitReshape(b, b.in(0), {rows, 1});
  if (shape.size() == 2 && axes == std::vector<int64_t>{1})
    return b.result(0, width == 1 ? b.emit("Identity", {g}) : timesOthers(b, E(b, g), E(b, b.in(1))));
  std::vector<int64_t> order, back(shape.size());  // kept axes, then reduced ones
  for (int64_t axis = 0; axis < b.inInfo(1).rank(); ++axis)
    if (!std::ranges::binary_search(axes, axis)) order.push_back(axis);
  order.insert(order.end(), axes.begin(), axes.end());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const TensorIndex moved = b.emit("Transpose", {b.in(1)}, {{"perm", order}});
  const TensorIndex dx = b.emit("ReduceProdGrad", {g, emitReshape(b, moved, {rows, width})},
                                {{"fwd_shape", Shape{rows, width}}, {"axes", std::vector<int64_t>{1}}});
  b.result(0, b.emit("Transpose", {emitReshape(b, dx, b.info(moved).shape())}, {{"perm", back}}));
}

void addExtremes(OpDefs &rows) {
  auto atExtreme = [](E g, E x, E y, const Reduced &r) {
    E isTied = x.apply("Equal", y);
    return select(isTied, evenShare(g, r.by("ReduceSum", tieCount(isTied, g.type()))), g.number(0));
  };
  addGradient(rows,
              reduceRow("ai.onnx", "ReduceMax", kAllTypes, 18)
                  .layouts(reducedChannels)
                  .doc("Maximum; the elements equal to it share the gradient evenly."),
              {.x = true, .y = true}, atExtreme);
  addGradient(rows,
              reduceRow("ai.onnx", "ReduceMin", kAllTypes, 18)
                  .doc("Minimum; the elements equal to it share the gradient evenly."),
              {.x = true, .y = true}, atExtreme);
  addGradient(rows, reduceRow("ai.onnx", "ReduceProd", kNumeric, 18).doc("Product."), {.x = true}, nullptr);
  rows.back().decompose(decomposeProductGradient);
}

OpDef reduceSumToRow() {
  return OpDef("ai.graphcore", "ReduceSumTo", {1})
      .input("x", kNumeric)
      .output("y")
      .attrRequired("shape", AttributeType::Ints)
      .infer([](InferContext &c) {
        const Shape &to = c.attrInts("shape");
        c.require(npBroadcastable(to, c.shape(0)) && npOut(to, c.shape(0)) == c.shape(0),
                  "the input is not a broadcast of the shape asked for: got {}, expected a shape that {} broadcasts to",
                  c.shape(0), to);
        c.out(0, c.type(0), to);
      })
      .vjp([](VjpBuilder &b) {
        b.grad(0, b.emit("Expand", {b.gradOut(0)}, {{"shape", b.inInfo(0).shape()}}));
      })
      .decompose([](DecomposeBuilder &b) {
        const Shape &from = b.inInfo(0).shape(), &to = b.outInfo(0).shape();
        const std::vector<int64_t> axes = npReductionAxis(to, from);
        TensorIndex t = b.in(0);
        if (!axes.empty()) t = b.emit("ReduceSum", {t}, {{"axes", axes}, {"keepdims", int64_t{0}}});
        if (b.info(t).shape() == to)
          b.result(0, axes.empty() ? b.emit("Identity", {t}) : t);
        else
          b.result(0, b.emit("Reshape", {t}, {{"shape", to}, {"allowzero", int64_t{1}}}));
      })
      .traits(Trait::Internal)
      .pieces(alignedPieces)
      .identityIf(always)
      .notOnnx()
      .doc("Sums over the axes along which `shape` was broadcast to the shape of the input.");
}

OpDef lambSquareRow() {
  return OpDef("ai.graphcore", "LambSquare", {1})
      .input("x", kFloats)
      .output("y")
      .infer([](InferContext &c) { c.out(0, DataType::FLOAT, {}); })
      .cost(perElement(2))
      .noGrad("it is part of the optimizer")
      .notOnnx()
      .decompose([](DecomposeBuilder &b) {
        TensorIndex x = b.in(0);
        if (b.inInfo(0).dataType() != DataType::FLOAT) {
          x = b.emit("Cast", {x}, {{"to", int64_t{toOnnxDataType(DataType::FLOAT)}}});
        }
        b.result(0, b.emit("ReduceSumSquare", {x}, {{"keepdims", int64_t{0}}}));
      })
      .doc("Sum of squares as a float32 scalar.");
}

}  // namespace

Extreme extremeOf(const Op &op) {
  const OpDef &row = op.def().base();
  if (&row == &opDef("ReduceMin").base()) return Extreme::Least;
  return &row == &opDef("ReduceMax").base() ? Extreme::Greatest : Extreme::None;
}

OpDefs reduceOps() {
  OpDefs rows;
  addSums(rows);
  addExtremes(rows);
  rows.push_back(reduceSumToRow());
  rows.push_back(lambSquareRow());
  return rows;
}

}  // namespace popart::ops
