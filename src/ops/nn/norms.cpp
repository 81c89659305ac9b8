// Normalisations over parts of one sample, with xhat = (x - mean) r, r = 1 / sqrt(variance + eps) (population variance)
// and y = xhat scale + bias.
//   GroupNormalization: per sample and group of channels, over these channels and all dimensions after 1; scale and
//     bias (C); outputs y and optionally mean and r, each (N num_groups). Groups are consecutive channels; with
//     strided_groups, group g has the channels g, g + num_groups, g + 2 num_groups …
//   InstanceNormalization: one channel per group.
//   LayerNormalization: over the dimensions from `axis` on; scale and bias broadcast to x; these dimensions of mean and
//     r have size 1.
//   RMSNormalization: y = x r scale with r = 1 / sqrt(mean(x²) + eps) over the dimensions from `axis` on.
//   LRN: y = x / (bias + alpha / size sum x²)^beta over `size` neighbouring channels.
// Gradients: dx = r (h - mean(h) - xhat mean(h xhat)) with h = g scale; RMS without the mean(h) term.
#include <algorithm>

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

void inferGroupNorm(InferContext &c) {
  const Shape &x = c.shape(0);
  c.require(x.size() >= 2, "the input needs the dimensions (N, C, …): got shape {}", x);
  const int64_t groups = c.attrInt("num_groups");
  c.require(groups >= 1 && x[1] % groups == 0 && groups <= std::max<int64_t>(x[1], 1),
            "num_groups must divide the channels: got {} groups for {} channels", groups, x[1]);
  for (int i : {1, 2})
    c.require(c.shape(i) == Shape{x[1]}, "scale and bias must have one value per channel: got shape {}, expected {}",
              c.shape(i), Shape{x[1]});
  c.out(0, c.in(0));
  for (int i = 1; i < c.outputCount(); ++i) c.out(i, c.type(0), {x[0] * groups});
}

// Infos of a gradient row (grad_out, x, scale[, mean, inv_std]) of a forward row (x, scale[, bias]): the gradients of
// x, scale and bias.
void inferNormGrad(InferContext &c, const std::string &forward, int inputs) {
  c.require(c.hasIn(3) == c.hasIn(4), "mean and inverse standard deviation must come together: got one of them");
  std::vector<TensorInfo> infos{c.in(1), c.in(2)};
  if (inputs > 2) infos.push_back(c.in(2));
  ForwardOp(c, forward, infos, {}, inputs > 2 ? 3 : 1).gives(0, 0).gives(1, 3).gives(2, 4);
  c.out(0, c.in(1));
  for (int i = 1; i < c.outputCount(); ++i) c.out(i, c.in(2));
}

OpDef normGradientRow(const std::string &forward, int inputs) {
  OpDef row("ai.graphcore", forward + "Grad", {1});
  row.input("grad_out", kFloats, "T")
      .input("X", kFloats, "T")
      .input("scale", kFloats)
      .output("grad_x")
      .output("grad_scale", Arity::Optional)
      .attr("epsilon", 1e-5f)
      .infer([forward, inputs](InferContext &c) { inferNormGrad(c, forward, inputs); })
      .traits(Trait::Gradient)
      .cost(perElement(12))
      .notOnnx();
  return row;
}

OpDef &addStatistics(OpDef &row) {
  return row.input("mean", kFloats, "", Arity::Optional)
      .input("inv_std", kFloats, "", Arity::Optional)
      .output("grad_bias", Arity::Optional);
}

// Emits `type` with (g, x, scale[, statistics of outputs 1 and 2]) and assigns its outputs to the inputs that need
// them.
void emitNormGrad(VjpBuilder &b, const char *type, int outputs, Attributes attributes) {
  for (int i = 1; i < b.op().outputCount(); ++i)
    check(!b.hasGradOut(i),
          "{}: gradients through the statistics are not built: got one for output {}. Detach that output",
          b.op().debugName(), i);
  if (!b.hasGradOut(0)) return;
  std::vector<TensorIndex> inputs{b.gradOut(0), b.in(0), b.in(1)};
  if (outputs == 3 && b.op().hasOutput(1) && b.op().hasOutput(2)) inputs.insert(inputs.end(), {b.out(1), b.out(2)});
  attributes.set("epsilon", b.op().attrFloat("epsilon"));
  const std::vector<TensorIndex> grads = b.emitMany(type, inputs, outputs, attributes);
  for (int i = 0; i < outputs; ++i)
    if (b.wants(i)) b.grad(i, grads[i]);
  // The row sums the bias gradient to the shape of scale.
  if (b.wants(2) && b.inInfo(2).shape() != b.inInfo(1).shape())
    b.grad(2, emitReduceSumTo(b, b.gradOut(0), b.inInfo(2).shape()));
}

void decomposeLayerNormGrad(DecomposeBuilder &b) {
  const Shape &x = b.inInfo(1).shape();
  const int64_t rank = b.inInfo(1).rank();
  std::vector<int64_t> axes;
  for (int64_t d = axisOf(b.attrs(), rank); d < rank; ++d) axes.push_back(d);
  decomposeNormGradient(b, {x, axes, b.inInfo(2).shape()});
}

// Consecutive channels of a group are (N, groups, channels of each, rest), strided ones (N, channels, groups, rest).
void decomposeGroupNormGrad(DecomposeBuilder &b) {
  const Shape &x = b.inInfo(1).shape();
  const int64_t groups = b.op().attrInt("num_groups"), channels = x[1] / groups;
  const bool strided = b.op().hasAttr("strided_groups") && b.op().attrInt("strided_groups") != 0;
  const Shape scale{1, strided ? channels : groups, strided ? groups : channels, 1};
  decomposeNormGradient(b, {{x[0], scale[1], scale[2], elementCount(spatialShape(x))}, {strided ? 1 : 2, 3}, scale});
}

// How a forward op groups its channels.
Attributes channelGroups(const VjpBuilder &b) {
  Attributes groups{{"num_groups", b.op().attrInt("num_groups")}};
  if (b.op().hasAttr("strided_groups")) groups.set("strided_groups", b.op().attrInt("strided_groups"));
  return groups;
}

void addGroupNorm(OpDefs &rows) {
  rows.push_back(OpDef("ai.graphcore", "GroupNormalization", {1})
                     .input("x", kFloats)
                     .input("scale", kFloats)
                     .input("bias", kFloats)
                     .slots(Slot::Parameter, {1, 2})
                     .output("y")
                     .output("mean", Arity::Optional)
                     .output("inv_std", Arity::Optional)
                     .attrRequired("num_groups", AttributeType::Int)
                     .attrOptional("strided_groups", AttributeType::Int)
                     .attr("epsilon", 1e-5f)
                     .infer(inferGroupNorm)
                     .pieces(samplePieces<1>)
                     .traits(Trait::Norm | Trait::Spatial)
                     .precision(Precision::Follows)
                     .layouts(sameChannels<1>)
                     .cost(perElement(8))
                     .vjp([](VjpBuilder &b) { emitNormGrad(b, "GroupNormalizationGrad", 3, channelGroups(b)); })
                     .doc("Normalisation of each group of channels of each sample."));
  OpDef gradient = normGradientRow("GroupNormalization", 3);
  rows.push_back(addStatistics(gradient)
                     .attrRequired("num_groups", AttributeType::Int)
                     .attrOptional("strided_groups", AttributeType::Int)
                     .traits(Trait::Spatial)
                     .layouts(sameChannels<2>)
                     .decompose(decomposeGroupNormGrad)
                     .doc("Gradients of GroupNormalization; statistics are computed if they are not given."));
  rows.push_back(
      OpDef("ai.onnx", "InstanceNormalization", {1, 6, 22})
          .input("input", kFloats, "T")
          .input("scale", kFloats, "T")
          .input("B", kFloats, "T")
          .slots(Slot::Parameter, {1, 2})
          .output("output")
          .attr("epsilon", 1e-5f)
          .infer([](InferContext &c) {
            const Shape &x = c.shape(0);
            c.require(x.size() >= 3, "the input needs the dimensions (N, C, spatial…): got shape {}", x);
            for (int i : {1, 2})
              c.require(c.shape(i) == Shape{x[1]},
                        "scale and B must have one value per channel: got shape {}, expected {}", c.shape(i),
                        Shape{x[1]});
            c.out(0, c.in(0));
          })
          .traits(Trait::Norm)
          .precision(Precision::Follows)
          .pieces(samplePieces<1>)
          .cost(perElement(8))
          .vjp([](VjpBuilder &b) {
            emitNormGrad(b, "GroupNormalizationGrad", 3, {{"num_groups", b.inInfo(0).shape()[1]}});
          })
          .decompose([](DecomposeBuilder &b) {
            b.result(0, b.emit("GroupNormalization", {b.in(0), b.in(1), b.in(2)},
                               {{"num_groups", b.inInfo(0).shape()[1]}, {"epsilon", b.op().attrFloat("epsilon")}}));
          })
          .doc("Normalisation of each channel of each sample."));
}

void requireBroadcastsTo(const InferContext &c, int i) {
  const Shape &x = c.shape(0), &p = c.shape(i);
  c.require(p.size() <= x.size() && npBroadcastable(x, p) && npOut(x, p) == x,
            "input {} must broadcast to the data: got shape {}, expected one that fits {}", i, p, x);
}

void inferLayerNorm(InferContext &c) {
  const Shape &x = c.shape(0);
  const int64_t axis = c.axis("axis", static_cast<int64_t>(x.size()));
  c.op().mutableAttributes().set("axis", axis);
  requireBroadcastsTo(c, 1);
  if (c.hasIn(2)) requireBroadcastsTo(c, 2);
  c.out(0, c.in(0));
  Shape statistics = x;
  std::fill(statistics.begin() + axis, statistics.end(), 1);
  const DataType type = c.type(0) == DataType::DOUBLE ? DataType::DOUBLE : DataType::FLOAT;
  for (int i = 1; i < c.outputCount(); ++i) c.out(i, type, statistics);
}

// r = 1 / sqrt(mean(x²) + eps) over the dimensions from `axis` on, which get size 1.
Expression inverseRms(OpEmitter &b, Expression x) {
  const int64_t rank = b.info(x).rank();
  std::vector<int64_t> axes;
  for (int64_t d = axisOf(b.attrs(), rank); d < rank; ++d) axes.push_back(d);
  Expression mean = (x * x).apply("ReduceMean", {{"axes", axes}, {"keepdims", int64_t{1}}});
  return 1.0 / sqrt(mean + static_cast<double>(b.attrs().getAttribute<float>("epsilon")));
}

void decomposeRmsNorm(DecomposeBuilder &b) {
  Expression x(b, b.in(0)), scale(b, emitCast(b, b.in(1), b.inInfo(0).dataType()));
  b.result(0, x * inverseRms(b, x) * scale);
}

void decomposeRmsNormGrad(DecomposeBuilder &b) {
  Expression g(b, b.in(0)), x(b, b.in(1)), scale(b, emitCast(b, b.in(2), b.inInfo(1).dataType()));
  Expression r = inverseRms(b, x), h = g * scale;
  const int64_t rank = b.inInfo(1).rank();
  std::vector<int64_t> axes;
  for (int64_t d = axisOf(b.attrs(), rank); d < rank; ++d) axes.push_back(d);
  Expression mean = (h * x).apply("ReduceMean", {{"axes", axes}, {"keepdims", int64_t{1}}});
  b.result(0, r * (h - x * (r * r * mean)));
  if (b.hasOut(1)) b.result(1, emitCast(b, emitReduceSumTo(b, g * x * r, b.inInfo(2).shape()), b.inInfo(2).dataType()));
}

void addLayerNorm(OpDefs &rows) {
  rows.push_back(OpDef("ai.onnx", "LayerNormalization", {17})
                     .input("X", kFloats)
                     .input("Scale", kFloats)
                     .input("B", kFloats, "", Arity::Optional)
                     .slots(Slot::Parameter, {1, 2})
                     .output("Y")
                     .output("Mean", Arity::Optional)
                     .output("InvStdDev", Arity::Optional)
                     .attr("axis", int64_t{-1})
                     .attr("epsilon", 1e-5f)
                     .attr("stash_type", int64_t{1})
                     .infer(inferLayerNorm)
                     .pieces(leadingPieces)
                     .traits(Trait::Norm)
                     .precision(Precision::Follows)
                     .cost(perElement(8))
                     .vjp([](VjpBuilder &b) {
                       emitNormGrad(b, "LayerNormalizationGrad", 3, {{"axis", b.op().attrInt("axis")}});
                     })
                     .doc("Normalisation over the dimensions from axis on."));
  OpDef gradient = normGradientRow("LayerNormalization", 3);
  rows.push_back(addStatistics(gradient)
                     .attr("axis", int64_t{-1})
                     .decompose(decomposeLayerNormGrad)
                     .doc("Gradients of LayerNormalization; statistics are computed if they are not given."));
  rows.push_back(OpDef("ai.onnx", "RMSNormalization", {23})
                     .input("X", kFloats)
                     .input("scale", kFloats)
                     .slots(Slot::Parameter, {1})
                     .output("Y")
                     .attr("axis", int64_t{-1})
                     .attr("epsilon", 1e-5f)
                     .attr("stash_type", int64_t{1})
                     .infer(inferLayerNorm)
                     .pieces(leadingPieces)
                     .traits(Trait::Norm)
                     .precision(Precision::Follows)
                     .cost(perElement(8))
                     .vjp([](VjpBuilder &b) {
                       emitNormGrad(b, "RMSNormalizationGrad", 2, {{"axis", b.op().attrInt("axis")}});
                     })
                     .decompose(decomposeRmsNorm)
                     .doc("Division by the root of the mean square over the dimensions from axis on."));
  rows.push_back(normGradientRow("RMSNormalization", 2)
                     .attr("axis", int64_t{-1})
                     .decompose(decomposeRmsNormGrad)
                     .doc("Gradients of RMSNormalization."));
}

OpDef &lrnAttributes(OpDef &row) {
  return row.attr("alpha", 1e-4f).attr("beta", 0.75f).attr("bias", 1.0f).attrRequired("size", AttributeType::Int);
}

// Squares and sums over `size` channels, and a power, for each element.
void lrnCost(const Op &op, Cost &c) { c.flops *= 2.0 * static_cast<double>(op.attrInt("size")) + 4.0; }

// dx = g s^-beta - 2 alpha beta / size x sum(g x s^(-beta - 1)). Sums over a window of channels are averages with all
// of its places counted, times their number; the sum of the formula is the transposed one of the sum in s.
void decomposeLrnGrad(DecomposeBuilder &b) {
  const Shape &shape = b.inInfo(1).shape();
  const int64_t size = b.op().attrInt("size"), most = std::max<int64_t>(shape[1] - 1, 0);
  const int64_t before = std::min((size - 1) / 2, most), after = std::min(size / 2, most);
  const double alpha = b.op().attrFloat("alpha"), beta = b.op().attrFloat("beta"), bias = b.op().attrFloat("bias");
  const Shape view{shape[0], 1, shape[1], elementCount(spatialShape(shape))};
  const Attributes window{{"kernel_shape", std::vector<int64_t>{before + after + 1, 1}},
                          {"pads", std::vector<int64_t>{before, 0, after, 0}},
                          {"count_include_pad", int64_t{1}}};
  Attributes spread = window;
  spread.set("fwd_shape", view);
  const auto pooled = [&](const char *type, Expression e, const Attributes &attributes) {
    const Expression mean(b, b.emit(type, {emitReshape(b, e, view)}, attributes));
    return Expression(b, emitReshape(b, mean * static_cast<double>(before + after + 1), shape));
  };
  const Expression g(b, b.in(0)), x(b, b.in(1));
  const Expression s = bias + (alpha / static_cast<double>(size)) * pooled("AveragePool", x * x, window);
  const Expression direct = g * s.apply("Pow", s.number(-beta));
  const Expression sums = pooled("AveragePoolGrad", direct * x / s, spread);
  b.result(0, direct - x * sums * (2 * alpha * beta / static_cast<double>(size)));
}

void addLrn(OpDefs &rows) {
  OpDef row("ai.onnx", "LRN", {1, 13});
  row.input("X", kFloats).output("Y");
  rows.push_back(lrnAttributes(row)
                     .infer([](InferContext &c) {
                       c.require(c.in(0).rank() >= 2, "the input needs the dimensions (N, C, …): got shape {}",
                                 c.shape(0));
                       c.require(c.attrInt("size") >= 1, "size must be at least 1: got {}", c.attrInt("size"));
                       c.out(0, c.in(0));
                     })
                     .traits(Trait::Spatial)
                     .precision(Precision::Follows)
                     .layouts(sameChannels<1>)
                     .pieces(samplePieces<1>)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("LRNGrad", {b.gradOut(0), b.in(0)}, b.attrs()));
                     })
                     .cost(lrnCost)
                     .doc("Local response normalisation across channels."));
  OpDef gradient("ai.graphcore", "LRNGrad", {1});
  gradient.input("grad_out", kFloats, "T").input("X", kFloats, "T").output("grad");
  rows.push_back(
      lrnAttributes(gradient)
          .infer([](InferContext &c) { inferGradientOf(c, "LRN", {c.in(1)}); })
          .traits(Trait::Gradient | Trait::Spatial)
          .layouts(sameChannels<2>)
          .pieces(samplePieces<2>)
          .cost(lrnCost)
          .decompose(decomposeLrnGrad)
          .notOnnx()
          .doc("dx = g s^-beta - 2 alpha beta / size x sum(g x s^(-beta - 1)) with s = bias + alpha / size sum x²."));
}

}  // namespace

OpDefs normOps() {
  OpDefs rows;
  addGroupNorm(rows);
  addLayerNorm(rows);
  addLrn(rows);
  return rows;
}

}  // namespace popart::ops
