// Softmax, LogSoftmax and Hardmax along one axis (ONNX 13 meaning) and the gradients. Softmax with the attribute
// flatten = 1 works on the matrix [dimensions before axis, dimensions from axis on] (ONNX 1 to 12).
// y = exp(x - max) / sum(exp(x - max)):  dx = y (g - sum(g y));   log softmax: dx = g - exp(y) sum(g).
// If g is 0 in a whole row, dx is 0 for any y: rows that are masked completely have NaN, which networks replace by
// numbers.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void inferAxisOp(InferContext &c) {
  const int64_t rank = c.in(0).rank();
  c.require(rank > 0, "needs at least one dimension: got a scalar");
  c.op().mutableAttributes().set("axis", c.axis("axis", rank));
  c.out(0, c.in(0));
}

// With the last axis, rows are already rows of the matrix.
void inferSoftmax(InferContext &c) {
  inferAxisOp(c);
  const bool last = c.attrInt("axis") == c.in(0).rank() - 1;
  if (c.hasAttr("flatten") && (last || c.attrInt("flatten") == 0)) c.op().mutableAttributes().erase("flatten");
}

bool softmaxPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  return op.hasAttr("flatten") ? leadingPieces(op, cut, axis, pieces) : otherAxisPieces(op, cut, axis, pieces);
}

// A row of a softmax that may have the attribute flatten.
OpDef flattening(OpDef row, InferFn infer) {
  row.attrOptional("flatten", AttributeType::Int).infer(std::move(infer)).pieces(softmaxPieces);
  return row;
}

void decomposeHardmax(DecomposeBuilder &b) {
  // An empty axis has no first maximum.
  if (b.outInfo(0).nelms() == 0) return b.result(0, b.emit("Identity", {b.in(0)}));
  const int64_t axis = b.op().attrInt("axis");
  TensorIndex place = b.emit("ArgMax", {b.in(0)}, {{"axis", axis}, {"keepdims", int64_t{0}}});
  TensorIndex values = b.constant(TensorData::of<float>({2}, std::vector<float>{0.0f, 1.0f}));
  TensorIndex marks = b.emit("OneHot", {place, values}, {{"axis", axis}, {"depth", b.inInfo(0).shape()[axis]}});
  const DataType type = b.inInfo(0).dataType();
  b.result(0, type == DataType::FLOAT ? marks : b.emit("Cast", {marks}, {{"to", int64_t{toOnnxDataType(type)}}}));
}

OpDef forwardRow(const char *type, const char *text) {
  return OpDef("ai.onnx", type, {1, 11, 13})
      .input("input", kFloats, "T")
      .output("output")
      .attr("axis", int64_t{-1})
      .infer(inferAxisOp)
      .pieces(otherAxisPieces)
      .cost(perElement(5))
      .doc(text);
}

void requireSameShape(InferContext &c) {
  c.require(c.shape(0) == c.shape(1), "gradient and forward output differ in shape: got {} and {}", c.shape(0),
            c.shape(1));
}

OpDef softmaxGradientRow(const char *type, const char *text) {
  return OpDef("ai.graphcore", type, {1})
      .input("grad_out", kFloats, "T")
      .input("output", kFloats, "T")
      .output("grad")
      .attr("axis", int64_t{-1})
      .infer([](InferContext &c) {
        requireSameShape(c);
        inferAxisOp(c);
      })
      .traits(Trait::Gradient)
      .pieces(otherAxisPieces)
      .cost(perElement(4))
      .notOnnx()
      .doc(text);
}

// The sum over the softmax's axis, or over all dimensions of its row.
Expression rowSum(VjpBuilder &b, Expression x) {
  const int64_t rank = b.outInfo(0).rank(), axis = b.op().attrInt("axis");
  std::vector<int64_t> axes{axis};
  while (b.op().hasAttr("flatten") && axes.back() + 1 < rank) axes.push_back(axes.back() + 1);
  return x.apply("ReduceSum", {{"axes", axes}, {"keepdims", int64_t{1}}});
}

// h: the gradient of dx.
void softmaxGradientVjp(VjpBuilder &b) {
  const Expression g(b, b.in(0)), y(b, b.in(1)), h(b, b.gradOut(0));
  const Expression sum = rowSum(b, h * y);
  if (b.wants(0)) b.grad(0, y * (h - sum));
  if (b.wants(1)) b.grad(1, h * (g - rowSum(b, g * y)) - g * sum);
}

void logSoftmaxGradientVjp(VjpBuilder &b) {
  const Expression h(b, b.gradOut(0)), p = exp(Expression(b, b.in(1)));
  if (b.wants(0)) b.grad(0, h - rowSum(b, h * p));
  if (b.wants(1)) b.grad(1, -(h * p * rowSum(b, Expression(b, b.in(0)))));
}

VjpFn axisVjp(const char *gradType) {
  return [gradType](VjpBuilder &b) { b.grad(0, b.emit(gradType, {b.gradOut(0), b.out(0)}, b.attrs())); };
}

}  // namespace

OpDefs softmaxOps() {
  OpDefs rows;
  rows.push_back(flattening(forwardRow("Softmax", "Softmax along one axis, stabilised by the maximum."), inferSoftmax)
                     .vjp(axisVjp("SoftmaxGrad")));
  rows.push_back(forwardRow("LogSoftmax", "Logarithm of the softmax along one axis.").vjp(axisVjp("LogSoftmaxGrad")));
  rows.push_back(forwardRow("Hardmax", "1 at the first maximum along the axis, 0 elsewhere.")
                     .stopsGrad()
                     .decompose(decomposeHardmax));
  rows.push_back(
      flattening(softmaxGradientRow("SoftmaxGrad", "dx = y (g - sum(g y)) along the axis."), [](InferContext &c) {
        requireSameShape(c);
        inferSoftmax(c);
      }).vjp(softmaxGradientVjp));
  rows.push_back(
      softmaxGradientRow("LogSoftmaxGrad", "dx = g - exp(y) sum(g) along the axis.").vjp(logSoftmaxGradientVjp));
  return rows;
}

}  // namespace popart::ops
