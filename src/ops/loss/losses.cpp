// L1 and identity losses, the loss operators of ai.onnx and their gradients.
// L1: lambda |x|, identity: x; both are summed, averaged over all elements or left as they are.
// NegativeLogLikelihoodLoss: input (N, C, d…), target (N, d…), optional weight (C): -w[t] x[n, t, …]; mean divides by
// the sum of the weights used; targets equal to ignore_index do not count. SoftmaxCrossEntropyLoss applies it to the
// log softmax.
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/loss/reduction.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

Shape reducedLossShape(InferContext &c) { return inferLossReduction(c) == LossReduction::None ? c.shape(0) : Shape{}; }

// The sum or mean over all elements, or x itself.
TensorIndex emitReduction(OpEmitter &b, TensorIndex x, LossReduction reduction) {
  if (reduction == LossReduction::None) return x;
  return b.emit(reduction == LossReduction::Sum ? "ReduceSum" : "ReduceMean", {x}, {{"keepdims", int64_t{0}}});
}

// The incoming gradient spread over the elements of `shape`: divided by their number for Mean.
TensorIndex emitSpread(OpEmitter &b, TensorIndex g, LossReduction reduction, const Shape &shape) {
  if (reduction == LossReduction::None) return g;
  Expression gradient(b, g);
  if (reduction == LossReduction::Mean)
    gradient = gradient * (1.0 / static_cast<double>(std::max<int64_t>(elementCount(shape), 1)));
  return b.emit("Expand", {gradient}, {{"shape", shape}});
}

void addL1(OpDefs &rows) {
  rows.push_back(
      OpDef("ai.graphcore", "L1", {1})
          .input("x", kFloats)
          .output("loss")
          .attrRequired("lambda", AttributeType::Float)
          .attr("reduction", std::string("Mean"))
          .infer([](InferContext &c) {
            c.require(c.in(0).rank() > 0, "needs at least one dimension: got a scalar");
            c.out(0, c.type(0), reducedLossShape(c));
          })
          .traits(Trait::Loss)
          .pieces(lossPieces)
          .cost(perElement(3))
          .vjp([](VjpBuilder &b) {
            b.grad(0, b.emit("L1Grad", {b.gradOut(0), b.in(0)},
                             {{"lambda", b.op().attrFloat("lambda")}, {"reduction", b.op().attrString("reduction")}}));
          })
          .decompose([](DecomposeBuilder &b) {
            Expression magnitude = Expression(b, b.in(0)).apply("Abs") * double{b.op().attrFloat("lambda")};
            b.result(0, emitReduction(b, magnitude, lossReduction(b.op().attrString("reduction"))));
          })
          .doc("lambda |x|, reduced."));
  rows.push_back(OpDef("ai.graphcore", "L1Grad", {1})
                     .input("grad_out", kFloats)
                     .input("x", kFloats)
                     .output("grad")
                     .attrRequired("lambda", AttributeType::Float)
                     .attr("reduction", std::string("Mean"))
                     .infer([](InferContext &c) { inferGradientOf(c, "L1", {c.in(1)}); })
                     .traits(Trait::Gradient)
                     .pieces(lossPieces)
                     .cost(perElement(3))
                     .decompose([](DecomposeBuilder &b) {
                       const LossReduction reduction = lossReduction(b.op().attrString("reduction"));
                       Expression g(b, emitSpread(b, b.in(0), reduction, b.inInfo(1).shape()));
                       Expression sign = Expression(b, b.in(1)).apply("Sign") * double{b.op().attrFloat("lambda")};
                       b.result(0, g * sign);
                     })
                     .notOnnx()
                     .doc("lambda sign(x) g, divided by the number of elements for Mean."));
}

void addIdentityLoss(OpDefs &rows) {
  rows.push_back(
      OpDef("ai.graphcore", "IdentityLoss", {1})
          .input("x", kFloats | typeBit(DataType::INT32))
          .output("loss")
          .attr("reduction", std::string("Mean"))
          .infer([](InferContext &c) { c.out(0, c.type(0), reducedLossShape(c)); })
          .traits(Trait::Loss)
          .pieces(lossPieces)
          .vjp([](VjpBuilder &b) {
            b.grad(0, b.emit("IdentityLossGrad", {b.gradOut(0)},
                             {{"reduction", b.op().attrString("reduction")}, {"fwd_shape", b.inInfo(0).shape()}}));
          })
          .decompose([](DecomposeBuilder &b) {
            const LossReduction reduction = lossReduction(b.op().attrString("reduction"));
            b.result(0, reduction == LossReduction::None ? b.emit("Identity", {b.in(0)})
                                                         : emitReduction(b, b.in(0), reduction));
          })
          .doc("The sum or the mean of the input, or the input itself, marked as a loss."));
  rows.push_back(OpDef("ai.graphcore", "IdentityLossGrad", {1})
                     .input("grad_out", kFloats | typeBit(DataType::INT32))
                     .output("grad")
                     .attr("reduction", std::string("Mean"))
                     .attrRequired("fwd_shape", AttributeType::Ints)
                     .infer([](InferContext &c) { inferGradientOf(c, "IdentityLoss", {forwardInfo(c)}); })
                     .traits(Trait::Gradient)
                     .pieces(lossPieces)
                     .decompose([](DecomposeBuilder &b) {
                       const LossReduction reduction = lossReduction(b.op().attrString("reduction"));
                       TensorIndex g = emitSpread(b, b.in(0), reduction, b.op().attrInts("fwd_shape"));
                       b.result(0, reduction == LossReduction::None ? b.emit("Identity", {g}) : g);
                     })
                     .notOnnx()
                     .doc("The incoming gradient spread over the elements."));
}

// The shape of the loss for input (N, C, d…), target (N, d…) and weight (C).
Shape inferClassLoss(InferContext &c) {
  const Shape &x = c.shape(0);
  c.require(x.size() >= 2, "the input needs the dimensions (N, C, …): got shape {}", x);
  Shape expected = x;
  expected.erase(expected.begin() + 1);
  c.require(c.shape(1) == expected,
            "targets must have the input's shape without the class dimension: got {}, expected {}", c.shape(1),
            expected);
  if (c.hasIn(2))
    c.require(c.shape(2) == Shape{x[1]}, "weights need one value per class: got shape {}, expected {}", c.shape(2),
              Shape{x[1]});
  return inferLossReduction(c) == LossReduction::None ? expected : Shape{};
}

// Pieces are samples of scores, of targets and of values with one number for each sample; all pieces share the weights.
bool classLossPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  if (axis != 0 || op.inRank(cut) == 0 || !fallsApart(op)) return false;
  const int weights = static_cast<int>(op.def().inputs().size()) - 1;  // by class
  for (InIndex i = 0; i < op.inputCount(); ++i) {
    if (!op.hasInput(i) || op.inRank(i) == 0 || i == weights) continue;
    if (op.inShape(i)[0] != op.inShape(cut)[0]) return false;
    pieces.in[static_cast<size_t>(i)] = 0;
  }
  std::ranges::fill(pieces.out, 0);
  return true;
}

OpDef &classLossAttributes(OpDef &row) {
  return row.attr("reduction", std::string("mean"))
      .attrOptional("ignore_index", AttributeType::Int)
      .attrOptional(kIgnoreOutOfRange, AttributeType::Int)
      .pieces(classLossPieces);
}

Attributes sharedAttributes(const OpEmitter &b) {
  Attributes out{{"reduction", b.op().attrString("reduction")}};
  if (b.op().hasAttr("ignore_index")) out.set("ignore_index", b.op().attrInt("ignore_index"));
  return out;
}

// As in PyTorch, weights by class are settings.
void refuseGradientOfWeights(const VjpBuilder &b, int weights) {
  if (b.wants(weights))
    throw error(
        "{}: weights by class have no gradient. Detach them, or multiply the losses of reduction 'none' by them",
        b.op().debugName());
}

void addNegativeLogLikelihood(OpDefs &rows) {
  OpDef forward("ai.onnx", "NegativeLogLikelihoodLoss", {12, 13, 22});
  forward.input("input", kFloats, "T")
      .input("target", kInts)
      .input("weight", kFloats, "T", Arity::Optional)
      .output("loss");
  rows.push_back(classLossAttributes(forward)
                     .infer([](InferContext &c) { c.out(0, c.type(0), inferClassLoss(c)); })
                     .traits(Trait::Loss)
                     .cost(pickCost)
                     .vjp([](VjpBuilder &b) {
                       refuseGradientOfWeights(b, 2);
                       b.grad(0, b.emit("NegativeLogLikelihoodLossGrad", {b.gradOut(0), b.in(1), b.in(2)}, [&b] {
                         Attributes a = sharedAttributes(b);
                         a.set("fwd_shape", b.inInfo(0).shape());
                         return a;
                       }()));
                     })
                     .doc("Weighted negative log likelihood of log probabilities (N, C, d…)."));
  OpDef gradient("ai.graphcore", "NegativeLogLikelihoodLossGrad", {1});
  gradient.input("grad_out", kFloats, "T")
      .input("target", kInts)
      .input("weight", kFloats, "T", Arity::Optional)
      .output("grad");
  rows.push_back(
      classLossAttributes(gradient)
          .attrRequired("fwd_shape", AttributeType::Ints)
          .infer([](InferContext &c) {
            inferGradientOf(c, "NegativeLogLikelihoodLoss",
                            {forwardInfo(c), c.in(1), c.hasIn(2) ? c.in(2) : TensorInfo()});
          })
          .traits(Trait::Gradient)
          .vjp([](VjpBuilder &b) {  // the loss is linear; this is its transpose
            b.grad(0, b.emit("NegativeLogLikelihoodLoss", {b.gradOut(0), b.in(1), b.in(2)}, sharedAttributes(b)));
          })
          .notOnnx()
          .doc("-weight[target] g at the target class, divided by the sum of weights for mean."));
}

void decomposeSoftmaxCrossEntropy(DecomposeBuilder &b) {
  TensorIndex logProb = b.emit("LogSoftmax", {b.in(0)}, {{"axis", int64_t{1}}});
  b.result(0, b.emit("NegativeLogLikelihoodLoss", {logProb, b.in(1), b.in(2)}, sharedAttributes(b)));
  if (b.hasOut(1)) b.result(1, logProb);
}

void decomposeSoftmaxCrossEntropyGrad(DecomposeBuilder &b) {
  Attributes attributes = sharedAttributes(b);
  attributes.set("fwd_shape", b.inInfo(2).shape());
  TensorIndex logProb = b.emit("LogSoftmax", {b.in(2)}, {{"axis", int64_t{1}}});
  TensorIndex g =
      b.hasIn(0) ? b.emit("NegativeLogLikelihoodLossGrad", {b.in(0), b.in(3), b.in(4)}, attributes) : TensorIndex{};
  if (b.hasIn(1)) g = g.valid() ? b.emit("Add", {g, b.in(1)}) : b.in(1);
  b.result(0, b.emit("LogSoftmaxGrad", {g, logProb}, {{"axis", int64_t{1}}}));
}

void addSoftmaxCrossEntropy(OpDefs &rows) {
  OpDef forward("ai.onnx", "SoftmaxCrossEntropyLoss", {12, 13});
  forward.input("scores", kFloats, "T").input("labels", kInts).input("weights", kFloats, "T", Arity::Optional);
  forward.output("output").output("log_prob", Arity::Optional);
  rows.push_back(
      classLossAttributes(forward)
          .infer([](InferContext &c) {
            c.out(0, c.type(0), inferClassLoss(c));
            if (c.outputCount() > 1) c.out(1, c.in(0));
          })
          .traits(Trait::Loss)
          .cost(perElement(5))
          .vjp([](VjpBuilder &b) {
            refuseGradientOfWeights(b, 2);
            TensorIndex g0 = b.hasGradOut(0) ? b.gradOut(0) : TensorIndex{};
            TensorIndex g1 = b.hasGradOut(1) ? b.gradOut(1) : TensorIndex{};
            b.grad(0, b.emit("SoftmaxCrossEntropyLossGrad", {g0, g1, b.in(0), b.in(1), b.in(2)}, sharedAttributes(b)));
          })
          .decompose(decomposeSoftmaxCrossEntropy)
          .doc("Negative log likelihood of the log softmax of scores (N, C, d…) over C."));
  OpDef gradient("ai.graphcore", "SoftmaxCrossEntropyLossGrad", {1});
  gradient.input("grad_out", kFloats, "T", Arity::Optional).input("grad_log_prob", kFloats, "T", Arity::Optional);
  gradient.input("scores", kFloats, "T")
      .input("labels", kInts)
      .input("weights", kFloats, "T", Arity::Optional)
      .output("grad");
  rows.push_back(
      classLossAttributes(gradient)
          .infer([](InferContext &c) {
            c.require(c.hasIn(0) || c.hasIn(1), "needs the gradient of the loss or of the log probabilities: got none");
            const TensorInfo weights = c.hasIn(4) ? c.in(4) : TensorInfo();
            ForwardOp(c, "SoftmaxCrossEntropyLoss", {c.in(2), c.in(3), weights}, {}, 2).gives(0, 0).gives(1, 1);
            c.out(0, c.in(2));
          })
          .traits(Trait::Gradient)
          .cost(perElement(7))
          .decompose(decomposeSoftmaxCrossEntropyGrad)
          .notOnnx()
          .doc("Gradient of SoftmaxCrossEntropyLoss with respect to the scores."));
}

}  // namespace

OpDefs lossOps() {
  OpDefs rows;
  addL1(rows);
  addIdentityLoss(rows);
  addNegativeLogLikelihood(rows);
  addSoftmaxCrossEntropy(rows);
  return rows;
}

}  // namespace popart::ops
