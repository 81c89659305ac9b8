// BatchNormalization over dimension 1 (C). Parameters have shape (C).
//   inference (1 output):  y = (x - mean) / sqrt(var + eps) scale + B
//   training (training_mode = 1): statistics of the batch over all other dimensions; outputs y, running mean, running
//   variance (momentum running + (1 - momentum) batch), each of its own input's type, and optionally
//   the batch mean and the batch's inverse standard deviation.
// The variance for the running statistics is the population's, or with unbiased_variance that of n - 1 samples.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/nn/norm_gradient.hpp"
#include "ops/nn/window.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

enum Input { kX, kScale, kBias, kMean, kVar };

void inferBatchNorm(InferContext &c) {
  const Shape &x = c.shape(kX);
  c.require(x.size() >= 2, "the input needs the dimensions (N, C, …): got shape {}", x);
  const Shape parameters{x[1]};
  for (int i = kScale; i <= kVar; ++i)
    c.require(c.shape(i) == parameters, "input {} must have one value per channel: got shape {}, expected {}", i,
              c.shape(i), parameters);
  const bool training = c.attrInt("training_mode") != 0;
  c.require(training || c.outputCount() <= 1, "more than one output needs training_mode = 1: got {} outputs",
            c.outputCount());
  c.out(0, c.in(kX));
  for (int i = 1; i < c.outputCount(); ++i)
    c.out(i, i == 1 ? c.type(kMean) : i == 2 ? c.type(kVar) : c.type(kX), parameters);
}

// Shape that broadcasts (C) over (N, C, …).
Shape channelShape(const Shape &x) {
  Shape shape(x.size() - 1, 1);
  shape[0] = x[1];
  return shape;
}

TensorIndex sumOverAllButChannels(OpEmitter &b, TensorIndex t, DataType type) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < b.info(t).rank(); ++i)
    if (i != 1) axes.push_back(i);
  TensorIndex sum = b.emit("ReduceSum", {t}, {{"axes", axes}, {"keepdims", int64_t{0}}});
  return b.info(sum).dataType() == type ? sum : b.emit("Cast", {sum}, {{"to", int64_t{toOnnxDataType(type)}}});
}

// With r = 1 / sqrt(var + eps) and xhat = (x - mean) r:
// dx = g scale r, dscale = sum(g xhat), dB = sum(g), dmean = -scale r sum(g), dvar = -0.5 scale r² sum(g xhat).
void inferenceVjp(VjpBuilder &b) {
  if (!b.hasGradOut(0)) return;
  const Shape shape = channelShape(b.inInfo(kX).shape());
  const DataType type = b.inInfo(kX).dataType();
  auto parameter = [&](int i) {
    TensorIndex t = b.in(i);
    if (b.info(t).dataType() != type) t = b.emit("Cast", {t}, {{"to", int64_t{toOnnxDataType(type)}}});
    return Expression(b, t);
  };
  Expression g(b, b.gradOut(0)), scale = parameter(kScale);
  Expression r = sqrt(parameter(kVar) + double{b.op().attrFloat("epsilon")}).apply("Reciprocal");
  auto spread = [&](Expression e) { return Expression(b, emitReshape(b, e, shape)); };
  if (b.wants(kX)) b.grad(kX, g * spread(scale * r));
  if (b.wants(kBias)) b.grad(kBias, sumOverAllButChannels(b, g, b.inInfo(kBias).dataType()));
  if (b.wants(kMean)) {
    Expression sum(b, sumOverAllButChannels(b, g, type));
    b.grad(kMean, -(scale * r * sum));
  }
  if (!b.wants(kScale) && !b.wants(kVar)) return;
  Expression xhat = (Expression(b, b.in(kX)) - spread(parameter(kMean))) * spread(r);
  Expression product = g * xhat;
  if (b.wants(kScale)) b.grad(kScale, sumOverAllButChannels(b, product, b.inInfo(kScale).dataType()));
  if (b.wants(kVar)) {
    Expression sum(b, sumOverAllButChannels(b, product, type));
    b.grad(kVar, scale * r * r * sum * -0.5);
  }
}

void trainingVjp(VjpBuilder &b) {
  for (int i = 1; i < b.op().outputCount(); ++i)
    check(!b.hasGradOut(i),
          "{}: gradients through the statistics are not built: got one for output {}. Detach that output",
          b.op().debugName(), i);
  if (!b.hasGradOut(0)) return;
  const bool saved = b.op().hasOutput(3) && b.op().hasOutput(4);
  std::vector<TensorIndex> inputs{b.gradOut(0), b.in(kX), b.in(kScale)};
  if (saved) inputs.insert(inputs.end(), {b.out(3), b.out(4)});
  const std::vector<TensorIndex> grads =
      b.emitMany("BatchNormalizationGrad", inputs, 3, {{"epsilon", b.op().attrFloat("epsilon")}});
  for (int i = kX; i <= kBias; ++i)
    if (b.wants(i)) b.grad(i, grads[i]);
}

void inferBatchNormGrad(InferContext &c) {
  c.require(c.hasIn(3) == c.hasIn(4), "mean and inverse standard deviation must come together: got one of them");
  const TensorInfo parameter = c.in(2);
  ForwardOp(c, "BatchNormalization", {c.in(1), parameter, parameter, parameter, parameter},
            {{"training_mode", int64_t{1}}}, 5)
      .gives(0, 0)
      .gives(3, 3)
      .gives(4, 4);
  c.out(0, c.in(1));
  if (c.outputCount() > 1) c.out(1, c.in(2));
  if (c.outputCount() > 2) c.out(2, c.in(2));
}

}  // namespace

OpDefs batchNormOps() {
  OpDefs rows;
  OpDef row("ai.onnx", "BatchNormalization", {6, 7, 9, 14, 15});
  for (const char *name : {"X", "scale", "B", "input_mean", "input_var"}) row.input(name, kFloats);
  row.slots(Slot::Parameter, {kScale, kBias}).slots(Slot::Statistic, {kMean, kVar});
  row.output("Y");
  for (const char *name : {"running_mean", "running_var", "saved_mean", "saved_inv_std"})
    row.output(name, Arity::Optional);
  rows.push_back(
      row.attr("epsilon", 1e-5f)
          .attr("momentum", 0.9f)
          .attr("training_mode", int64_t{0})
          .attr("unbiased_variance", int64_t{0})
          .infer(inferBatchNorm)
          .traits(Trait::Norm | Trait::Spatial)
          .layouts(sameChannels<1>)
          .pieces([](const Op &op, InIndex cut, int axis, Pieces &pieces) {
            return op.attrInt("training_mode") == 0 && samplePieces<1>(op, cut, axis, pieces);
          })
          .role(Role::BatchNormalization)
          .precision(Precision::Follows)
          .cost(perElement(8))
          .vjp([](VjpBuilder &b) { b.op().attrInt("training_mode") != 0 ? trainingVjp(b) : inferenceVjp(b); })
          .doc("Normalisation of each channel, with given statistics or those of the batch."));
  OpDef gradient("ai.graphcore", "BatchNormalizationGrad", {1});
  gradient.input("grad_out", kFloats, "T").input("X", kFloats, "T").input("scale", kFloats);
  gradient.input("mean", kFloats, "", Arity::Optional).input("inv_std", kFloats, "", Arity::Optional);
  gradient.output("grad_x").output("grad_scale", Arity::Optional).output("grad_bias", Arity::Optional);
  rows.push_back(
      gradient.attr("epsilon", 1e-5f)
          .infer(inferBatchNormGrad)
          .traits(Trait::Gradient | Trait::Spatial)
          .layouts(sameChannels<2>)
          .cost(perElement(12))
          .decompose([](DecomposeBuilder &b) {
            const Shape &x = b.inInfo(1).shape();
            decomposeNormGradient(b, {{x[0], x[1], elementCount(spatialShape(x))}, {0, 2}, {1, x[1], 1}});
          })
          .notOnnx()
          .doc("dx = scale r (g - mean(g) - xhat mean(g xhat)), dscale = sum(g xhat), dbias = sum(g); mean and r are "
               "computed from the batch if they are not given."));
  return rows;
}

}  // namespace popart::ops
