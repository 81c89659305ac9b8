// Negative log likelihood of class probabilities (ai.graphcore nllloss) and its combined forms with softmax.
// With p = probs at the label: loss = -log(max(p, eps)), eps = 1e-7 (float16: 6.104e-5); -p when the input holds log
// probabilities. Rows whose label is ignoreIndex contribute 0 and do not count for Mean (which divides by at least 1).
// Any other label outside [0, classes) ends the run; with ignoreOutOfRange it contributes 0.
// Direct gradients assume probs = softmax(x): dx = (probs - onehot(label)) g / count.
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/loss/reduction.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

LossReduction lossReduction(std::string_view text) {
  if (text == "Sum" || text == "sum") return LossReduction::Sum;
  if (text == "Mean" || text == "mean") return LossReduction::Mean;
  if (text == "NoReduction" || text == "none") return LossReduction::None;
  throw error("unknown loss reduction: got '{}', expected Sum, Mean or NoReduction", text);
}

LossReduction inferLossReduction(const InferContext &c) {
  const std::string &text = c.attrString("reduction");
  const bool known =
      text == "Sum" || text == "sum" || text == "Mean" || text == "mean" || text == "NoReduction" || text == "none";
  c.require(known, "unknown reduction: got '{}', expected Sum, Mean or NoReduction", text);
  return lossReduction(text);
}

double leastProbability(const Attributes &attributes, DataType probabilities, LossPart part) {
  if (const AttributeValue *given = attributes.find(kLeastProbability))
    return static_cast<double>(std::get<float>(*given));
  if (probabilities == DataType::FLOAT16) return 6.104e-5;  // BFLOAT16 has the range of FLOAT
  return part == LossPart::Gradient ? 1e-10 : 1e-7;
}

void stateLeastProbability(const Op &op, Attributes &attributes) {
  const std::vector<AttributeDef> &defined = op.def().attributes();
  const LossPart part = op.has(Trait::Gradient) ? LossPart::Gradient : LossPart::Loss;
  if (std::ranges::any_of(defined, [](const AttributeDef &a) { return a.name == kLeastProbability; }))
    attributes.set(kLeastProbability, static_cast<float>(leastProbability(attributes, op.inInfo(0).dataType(), part)));
}

void pickCost(const Op &op, Cost &c) {
  const TensorInfo &labels = op.inInfo(1);
  const auto picked = static_cast<double>(labels.nelms());
  c.flops = 3 * picked;
  c.bytesRead = static_cast<double>(labels.nbytes()) + picked * getDataTypeInfo(op.inInfo(0).dataType()).nbytes;
}

bool fallsApart(const Op &op) {
  const LossReduction reduction = lossReduction(op.attrString("reduction"));
  return reduction == LossReduction::None || (reduction == LossReduction::Sum && op.has(Trait::Gradient));
}

bool lossPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  if (!fallsApart(op)) return false;
  const int64_t size = op.inShape(cut)[static_cast<size_t>(axis)];
  const auto place = [&](const Shape &shape) {
    return axis < static_cast<int>(shape.size()) && shape[static_cast<size_t>(axis)] == size ? axis : Pieces::kWhole;
  };
  for (InIndex i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i)) pieces.in[static_cast<size_t>(i)] = place(op.inShape(i));
  for (OutIndex o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o)) pieces.out[static_cast<size_t>(o)] = place(op.outShape(o));
  return true;
}

namespace {

// Not along the classes, and not if labels have another shape than the rows.
bool rowPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const Shape &probs = op.inShape(0);
  return axis < op.inRank(1) && op.inShape(1) == Shape(probs.begin(), probs.end() - 1) &&
         lossPieces(op, cut, axis, pieces);
}

// Checks probabilities (..., C) against labels (...), and returns the shape of the loss.
Shape inferLossShape(InferContext &c) {
  const Shape &probs = c.shape(0), &labels = c.shape(1);
  c.require(!probs.empty(), "probabilities need a class dimension: got a scalar");
  const Shape expected(probs.begin(), probs.end() - 1);
  c.require(labels == expected,
            "labels must have the shape of the probabilities without the last dimension: got {}, expected {}", labels,
            expected);
  return inferLossReduction(c) == LossReduction::None ? labels : Shape{};
}

// The same for labels in any shape, with one label for each row.
Shape inferFlatLossShape(InferContext &c) {
  const Shape &probs = c.shape(0);
  c.require(!probs.empty(), "probabilities need a class dimension: got a scalar");
  const int64_t rows = elementCount(Shape(probs.begin(), probs.end() - 1));
  c.require(c.in(1).nelms() == rows, "labels must be as many as the probabilities have rows: got {}, expected {}",
            c.shape(1), rows);
  return inferLossReduction(c) == LossReduction::None ? c.shape(1) : Shape{};
}

void requireLossGradient(InferContext &c, const Shape &loss) {
  if (!c.hasIn(2)) return;
  c.require(c.shape(2) == loss || c.in(2).nelms() == 1,
            "the gradient of the loss has another shape than the loss: got {}, expected {}", c.shape(2), loss);
}

OpDef lossRow(const char *type, const char *firstOutput) {
  return OpDef("ai.graphcore", type, {1})
      .input("probs", kFloats)
      .input("labels", kInts)
      .output(firstOutput)
      .attr("reduction", std::string("Mean"))
      .attrOptional("ignoreIndex", AttributeType::Int)
      .attrOptional(kIgnoreOutOfRange, AttributeType::Int)
      .attrOptional(kLeastProbability, AttributeType::Float)
      .pieces(rowPieces);
}

Attributes lossAttributes(const VjpBuilder &b, std::initializer_list<const char *> names) {
  Attributes out;
  for (const char *name : names)
    if (const AttributeValue *v = b.attrs().find(name)) out.set(name, *v);
  return out;
}

// Linear in the incoming gradient; the transpose is the loss of log probabilities. The derivative of -1 / p is 1 / p².
void nllGradVjp(VjpBuilder &b) {
  Expression h(b, b.gradOut(0));
  if (b.op().attrInt("inputIsLogProbability") == 0) {
    const Expression p(b, b.in(0)), least = p.number(leastProbability(b.attrs(), p.type(), LossPart::Gradient));
    h = h / p.apply("Max", least);
    if (b.wants(0)) b.grad(0, select(p.apply("Greater", least), -(h * Expression(b, b.out(0))), h.number(0)));
  }
  if (!b.wants(2)) return;
  Attributes attributes = lossAttributes(b, {"reduction", "ignoreIndex"});
  attributes.set("inputIsLogProbability", int64_t{1});
  TensorIndex loss = b.emit("Nll", {h, b.in(1)}, attributes);
  if (b.inInfo(2).nelms() == 1) loss = b.emit("ReduceSum", {loss}, {{"keepdims", int64_t{0}}});
  b.grad(2, emitReshape(b, loss, b.inInfo(2).shape()));
}

}  // namespace

OpDefs nllOps() {
  OpDefs rows;
  rows.push_back(lossRow("Nll", "loss")
                     .attr("inputIsLogProbability", int64_t{0})
                     .infer([](InferContext &c) { c.out(0, c.type(0), inferLossShape(c)); })
                     .traits(Trait::Loss)
                     .cost(pickCost)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("NllGrad", {b.in(0), b.in(1), b.gradOut(0)},
                                        lossAttributes(b, {"reduction", "ignoreIndex", "inputIsLogProbability"})));
                     })
                     .doc("Negative log likelihood loss of probabilities (..., C) and labels (...)."));
  rows.push_back(
      lossRow("NllGrad", "grad")
          .input("grad_out", kFloats)
          .attr("inputIsLogProbability", int64_t{0})
          .infer([](InferContext &c) {
            requireLossGradient(c, inferLossShape(c));
            c.out(0, c.in(0));
          })
          .traits(Trait::Gradient)
          .vjp(nllGradVjp)
          .notOnnx()
          .doc("-onehot(label) g / max(p, eps), divided by the count for Mean; eps = 1e-10 (float16: 6.104e-5)."));
  rows.push_back(lossRow("SoftmaxGradDirect", "grad")
                     .input("grad_out", kFloats)
                     .infer([](InferContext &c) {
                       requireLossGradient(c, inferLossShape(c));
                       c.out(0, c.in(0));
                     })
                     .traits(Trait::Gradient)
                     .noGrad("second derivatives of the nll loss are not built")
                     .notOnnx()
                     .doc("Gradient of Nll(Softmax(x)) with respect to x from the probabilities."));
  rows.push_back(
      lossRow("NlllWithSoftmaxGradDirect", "loss")
          .input("grad_out", kFloats)
          .output("grad")
          .infer([](InferContext &c) {
            const Shape loss = inferFlatLossShape(c);
            requireLossGradient(c, loss);
            c.out(0, c.type(0), loss);
            const AttributeValue *type = c.op().attributes().find(kGradientType);
            c.out(1, type ? fromOnnxDataType(static_cast<int>(std::get<int64_t>(*type))) : c.type(0), c.shape(0));
          })
          .attrOptional(kGradientType, AttributeType::Int)
          .traits(Trait::Loss)
          .cost(perElement(2))
          .noGrad("it already contains its gradient (output 1)")
          .notOnnx()
          .doc("Nll loss of softmax probabilities and, in the same pass, the gradient of the softmax's input."));
  return rows;
}

}  // namespace popart::ops
