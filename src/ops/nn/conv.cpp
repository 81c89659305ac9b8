// Convolution (cross-correlation, ONNX Conv) over any number of spatial dimensions, its gradients, and ConvTranspose.
// x (N, C, d…), w (M, C / group, k…), b (M): y (N, M, o…).
//   ConvDataGrad(g, w) scatters g back to x's shape (fwd_shape); ConvWeightsGrad(g, x) correlates g with x.
// ConvTranspose is the data gradient of the opposite convolution, plus bias, so its rows need no kernels.
#include <algorithm>

#include <popart/graph.hpp>

#include "ir/hints.hpp"
#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/nn/products.hpp"
#include "ops/nn/window.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

// The third input is the bias, or for FLOAT8 operands the log2 scale.
void productOperands(OpDef &row) {
  row.input("X", kFloats | kFloat8Types)
      .input("W", kFloats | kFloat8Types)
      .input("B", kFloats | typeBit(DataType::INT32), "", Arity::Optional)
      .slots(Slot::Parameter, {1, 2})
      .output("Y");
}

void requireBias(const InferContext &c, int64_t channels) {
  requireProductTypes(c);
  if (!c.hasIn(2) || productType(c) != c.type(0)) return;
  c.require(c.type(2) == c.type(0),
            "element types differ: got {} and {} (input 2 '{}'), expected equal types. Cast one of them", c.type(0),
            c.type(2), c.op().inId(2));
  c.require(c.shape(2) == Shape{channels}, "the bias must have one value per output channel: got shape {}, expected {}",
            c.shape(2), Shape{channels});
}

void inferConv(InferContext &c) {
  const Shape out = convolutionShape(c);
  requireBias(c, out[1]);
  c.out(0, productType(c), out);
}

Attributes convolutionAttributes(const OpEmitter &b) {
  Attributes out = windowAttributesOf(b.attrs());
  out.set("group", b.op().attrInt("group"));
  return out;
}

Attributes gradientAttributes(const OpEmitter &b, const Shape &forwardShape) {
  Attributes out = convolutionAttributes(b);
  out.set("fwd_shape", forwardShape);
  return out;
}

TensorIndex biasGradient(VjpBuilder &b) {
  std::vector<int64_t> axes{0};
  for (int64_t i = 2; i < b.outInfo(0).rank(); ++i) axes.push_back(i);
  return b.emit("ReduceSum", {b.gradOut(0)}, {{"axes", axes}, {"keepdims", int64_t{0}}});
}

OpDef convGradientRow(const char *type, const char *other) {
  OpDef row("ai.graphcore", type, {1});
  row.input("grad_out", kFloats, "T")
      .input(other, kFloats, "T")
      .output("grad")
      .attrRequired("fwd_shape", AttributeType::Ints);
  convAttributes(row).attrOptional(kAnySumOrder, AttributeType::Int).traits(Trait::Gradient | Trait::Spatial).notOnnx();
  return row;
}

// The convolution of x and w, cut to the size of its gradient `g`, which may be smaller.
TensorIndex convolutionLike(VjpBuilder &b, TensorIndex x, TensorIndex w, const Shape &g) {
  const TensorIndex y = b.emit("Conv", {x, w}, convolutionAttributes(b));
  if (b.info(y).shape() == g) return y;
  std::vector<int64_t> axes(g.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  return b.emit("Slice", {y}, {{"starts", std::vector<int64_t>(g.size(), 0)}, {"ends", g}, {"axes", axes}});
}

void addConv(OpDefs &rows) {
  OpDef conv("ai.onnx", "Conv", {1, 11, 22});
  productOperands(conv);
  rows.push_back(
      convAttributes(conv)
          .attrOptional(kAnySumOrder, AttributeType::Int)
          .infer(inferConv)
          .precision(Precision::Reduced)
          .traits(Trait::Spatial)
          .layouts(convolutionLayouts)
          .pieces(samplePieces<1>)
          .vjp([](VjpBuilder &b) {
            requireDifferentiableProduct(b.op());
            if (b.wants(0))
              b.grad(0, b.emit("ConvDataGrad", {b.gradOut(0), b.in(1)}, gradientAttributes(b, b.inInfo(0).shape())));
            if (b.wants(1))
              b.grad(1, b.emit("ConvWeightsGrad", {b.gradOut(0), b.in(0)}, gradientAttributes(b, b.inInfo(1).shape())));
            if (b.wants(2)) b.grad(2, biasGradient(b));
          })
          .role(Role::Conv)
          .cost([](const Op &op, Cost &c) { c.flops = convFlops(op.outInfo(0), op.inShape(1)); })
          .doc("Convolution of (N, C, spatial…) with weights (M, C / group, kernel…) and optional bias."));
  rows.push_back(convGradientRow("ConvDataGrad", "weights")
                     .role(Role::ConvDataGrad)
                     .cost([](const Op &op, Cost &c) { c.flops = convFlops(op.inInfo(0), op.inShape(1)); })
                     .infer([](InferContext &c) {
                       requireConvGradient(c, forwardInfo(c), c.in(1));
                       c.out(0, forwardInfo(c));
                     })
                     .vjp([](VjpBuilder &b) {
                       const TensorIndex h = b.gradOut(0);  // of x
                       if (b.wants(0)) b.grad(0, convolutionLike(b, h, b.in(1), b.inInfo(0).shape()));
                       if (b.wants(1))
                         b.grad(1, b.emit("ConvWeightsGrad", {b.in(0), h}, gradientAttributes(b, b.inInfo(1).shape())));
                     })
                     .layouts(dataGradientLayouts)
                     .pieces(samplePieces<1>)
                     .doc("Gradient of Conv with respect to its data, of shape fwd_shape."));
  rows.push_back(convGradientRow("ConvWeightsGrad", "data")
                     .role(Role::ConvWeightsGrad)
                     .cost([](const Op &op, Cost &c) { c.flops = convFlops(op.inInfo(0), op.outShape(0)); })
                     .infer([](InferContext &c) {
                       requireConvGradient(c, c.in(1), forwardInfo(c));
                       c.out(0, forwardInfo(c));
                     })
                     .vjp([](VjpBuilder &b) {
                       const TensorIndex h = b.gradOut(0);  // of w
                       if (b.wants(0)) b.grad(0, convolutionLike(b, b.in(1), h, b.inInfo(0).shape()));
                       if (b.wants(1))
                         b.grad(1, b.emit("ConvDataGrad", {b.in(0), h}, gradientAttributes(b, b.inInfo(1).shape())));
                     })
                     .layouts(weightGradientLayouts)
                     .doc("Gradient of Conv with respect to its weights, of shape fwd_shape."));
}

// Spatial output dimensions and pads of ConvTranspose; the pads are those of the convolution that it transposes.
// Inference replaces auto_pad and output_shape by equivalent pads and output_padding.
struct Transposed {
  Window window;
  Shape output;
};

// out = stride (d - 1) + output_padding + extent - pads; a given output size or auto_pad determines the pads instead.
Transposed transposedWindow(InferContext &c, const Shape &input, const Shape &kernel) {
  using Ints = std::vector<int64_t>;
  const std::string autoPad = c.attrString("auto_pad");
  const bool same = autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER";
  if (same) c.op().mutableAttributes().set("auto_pad", std::string("NOTSET"));
  Transposed t{completeWindow(c, input, kernel), Shape(input.size())};
  Window &w = t.window;
  const size_t rank = input.size();
  const auto given = [&](const char *name) { return c.hasAttr(name) ? c.attrInts(name) : Ints{}; };
  Ints extra = given("output_padding"), wanted = given("output_shape");
  if (extra.empty()) extra.assign(rank, 0);
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  c.require(extra.size() == rank, "output_padding needs one entry per spatial dimension: got {}", extra);
  c.require(wanted.empty() || wanted.size() == rank, "output_shape needs one entry per spatial dimension: got {}",
            wanted);
  constexpr int64_t kLargest = int64_t{1} << 31;  // so that sizes stay far below 2^63
  const auto within = [](const Ints &values) {
    return std::all_of(values.begin(), values.end(), [](int64_t v) { return v >= 0 && v <= kLargest; });
  };
  c.require(within(extra), "output_padding must not be negative or above {}: got {}", kLargest, extra);
  c.require(within(wanted), "output_shape must not be negative or above {}: got {}", kLargest, wanted);
  c.require(within(input), "the input's spatial dimensions are too large: got {}, expected up to {}", input, kLargest);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t full = w.strides[i] * (input[i] - 1) + extra[i] + w.extent(i);
    if (wanted.empty() && !same) {
      t.output[i] = full - w.padsLow[i] - w.padsHigh[i];
    } else {
      t.output[i] = wanted.empty() ? input[i] * w.strides[i] : wanted[i];
      const int64_t total = std::max<int64_t>(full - t.output[i], 0);
      w.padsLow[i] = autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.padsHigh[i] = total - w.padsLow[i];
    }
    extra[i] += t.output[i] - (full - w.padsLow[i] - w.padsHigh[i]);
    c.require(t.output[i] >= 1, "spatial output dimension {} would be empty: got {}. Reduce the pads", i, t.output[i]);
  }
  c.op().mutableAttributes().set("pads", w.pads());
  c.op().mutableAttributes().set("output_padding", extra);
  c.op().mutableAttributes().erase("output_shape");
  return t;
}

void inferConvTranspose(InferContext &c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  const int64_t group = c.attrInt("group");
  c.require(x.size() >= 3, "the input needs the dimensions (N, C, spatial…): got shape {}", x);
  c.require(w.size() == x.size(), "weights and input differ in rank: got shapes {} and {}", w, x);
  c.require(group >= 1 && w[0] % group == 0 && group <= std::max<int64_t>(w[0], 1),
            "group must be at least 1 and divide the input channels: got {} for {} channels", group, w[0]);
  c.require(x[1] == w[0], "the input's channels must equal weight dimension 0: got {}, expected {}", x[1], w[0]);
  const int64_t channels = w[1] * group;
  requireBias(c, channels);
  const Shape input = spatialShape(x);
  c.require(elementCount(input) > 0, "the input has no elements along a spatial dimension: got shape {}", x);
  const Transposed transposed = transposedWindow(c, input, spatialShape(w));
  c.require(transposed.window.kernel == spatialShape(w), "kernel_shape differs from the weights: got {}, expected {}",
            transposed.window.kernel, spatialShape(w));
  Shape out = transposed.output;
  out.insert(out.begin(), {x[0], channels});
  c.out(0, productType(c), out);
}

void decomposeConvTranspose(DecomposeBuilder &b) {
  const Shape out = b.outInfo(0).shape();
  TensorIndex y = b.emit("ConvDataGrad", {b.in(0), b.in(1)}, gradientAttributes(b, out));
  if (b.hasIn(2)) {
    Shape bias(out.size() - 1, 1);
    bias[0] = out[1];
    y = Expression(b, y) + Expression(b, emitReshape(b, b.in(2), bias));
  }
  b.result(0, y);
}

// The convolution of the gradient; output padding of a stride or more makes it longer than the data was.
TensorIndex transposedDataGradient(VjpBuilder &b) {
  return convolutionLike(b, b.gradOut(0), b.in(1), b.inInfo(0).shape());
}

// The weights' gradient of the opposite convolution, from the data to the gradient.
TensorIndex transposedWeightsGradient(VjpBuilder &b) {
  const TensorIndex g = b.emit("ConvWeightsGrad", {b.in(0), b.gradOut(0)}, gradientAttributes(b, b.inInfo(1).shape()));
  b.graph().tensor(g).getProducer()->settings.hints[kOfTransposed] = "";
  return g;
}

void addConvTranspose(OpDefs &rows) {
  OpDef row("ai.onnx", "ConvTranspose", {1, 11, 22});
  productOperands(row);
  rows.push_back(convAttributes(row)
                     .attrOptional("output_padding", AttributeType::Ints)
                     .attrOptional("output_shape", AttributeType::Ints)
                     .infer(inferConvTranspose)
                     .precision(Precision::Reduced)
                     .pieces(samplePieces<1>)
                     .decompose(decomposeConvTranspose)
                     .vjp([](VjpBuilder &b) {
                       requireDifferentiableProduct(b.op());
                       if (b.wants(0)) b.grad(0, transposedDataGradient(b));
                       if (b.wants(1)) b.grad(1, transposedWeightsGradient(b));
                       if (b.wants(2)) b.grad(2, biasGradient(b));
                     })
                     .cost([](const Op &op, Cost &c) { c.flops = convFlops(op.inInfo(0), op.inShape(1)); })
                     .doc("Transposed convolution with weights (C, M / group, kernel…) and optional bias."));
}

}  // namespace

OpDef &convAttributes(OpDef &row) {
  return windowAttributes(row).attrOptional("kernel_shape", AttributeType::Ints).attr("group", int64_t{1});
}

Shape convolutionShape(InferContext &c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  const int64_t group = c.attrInt("group");
  c.require(x.size() >= 3, "the input needs the dimensions (N, C, spatial…): got shape {}", x);
  c.require(w.size() == x.size(), "weights and input differ in rank: got shapes {} and {}", w, x);
  c.require(group >= 1, "group must be at least 1: got {}", group);
  c.require(x[1] % group == 0 && x[1] / group == w[1],
            "the input's channels must equal weight dimension 1 times group: got {} channels, expected {} x {}", x[1],
            w[1], group);
  c.require(w[0] % group == 0, "the output channels must divide by group: got {} channels in {} groups", w[0], group);
  const Window window = completeWindow(c, spatialShape(x), spatialShape(w));
  c.require(window.kernel == spatialShape(w), "kernel_shape differs from the weights: got {}, expected {}",
            window.kernel, spatialShape(w));
  Shape out = windowOutput(c, window, spatialShape(x), Rounding::Floor);
  out.insert(out.begin(), {x[0], w[0]});
  return out;
}

OpDefs convOps() {
  OpDefs rows;
  addConv(rows);
  addConvTranspose(rows);
  return rows;
}

}  // namespace popart::ops
