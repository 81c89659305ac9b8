// Pooling over sliding windows (MaxPool, AveragePool, LpPool) and over all spatial dimensions, with gradients.
// x (N, C, d…) → y (N, C, o…). MaxPool's optional indices are flat positions in the whole input (column-major within
// the spatial dimensions for storage_order 1). The gradient of a maximum goes to the first maximum of the window;
// averages spread it over the elements they counted. A dilated or ceiled average divides by the number of positions
// inside the padded input only. For a window entirely in the padding, the maximum is the least number, the average 0.
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/nn/window.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void inferPool(InferContext &c) {
  const Shape &x = c.shape(0);
  c.require(x.size() >= 3, "the input needs the dimensions (N, C, spatial…): got shape {}", x);
  const Shape input = spatialShape(x);
  const bool same = c.attrString("auto_pad").starts_with("SAME");
  const Window window = completeWindow(c, input, {});
  const bool ceil = c.attrInt("ceil_mode") != 0 && !same;
  Shape out = windowOutput(c, window, input, ceil ? Rounding::Ceil : Rounding::Floor);
  if (same) c.op().mutableAttributes().set("ceil_mode", int64_t{0});
  out.insert(out.begin(), {x[0], x[1]});
  c.out(0, c.type(0), out);
  if (c.outputCount() > 1) c.out(1, DataType::INT64, out);
}

void requireNorm(const InferContext &c) {
  const int64_t p = c.attrInt("p");
  c.require(p >= 1 && p <= (int64_t{1} << 31), "p is not positive or too large: got {}, expected the p of a p-norm", p);
}

// `n` operations for each element of each window; the windows are those of the smaller side.
CostFn windowCost(double n) {
  return [n](const Op &op, Cost &c) {
    const int64_t windows = std::min(op.inInfo(0).nelms(), op.outInfo(0).nelms());
    c.flops = n * static_cast<double>(windows) * static_cast<double>(elementCount(op.attrInts("kernel_shape")));
  };
}

OpDef poolRow(const char *type, std::vector<OpVersion> versions, TypeSet types) {
  OpDef row("ai.onnx", type, std::move(versions));
  row.input("X", types).output("Y").attrRequired("kernel_shape", AttributeType::Ints).attr("ceil_mode", int64_t{0});
  windowAttributes(row)
      .infer(inferPool)
      .traits(Trait::Spatial)
      .layouts(sameChannels<1>)
      .pieces(samplePieces<1>)
      .cost(windowCost(1));
  return row;
}

OpDef poolGradientRow(const char *type) {
  OpDef row("ai.graphcore", type, {1});
  row.input("grad_out", kFloats, "T")
      .output("grad")
      .attrRequired("kernel_shape", AttributeType::Ints)
      .attr("ceil_mode", int64_t{0});
  windowAttributes(row)
      .traits(Trait::Gradient | Trait::Spatial)
      .layouts(sameChannels<3>)  // those there are
      .pieces(samplePieces<3>)
      .cost(windowCost(1))
      .notOnnx();
  return row;
}

Attributes poolAttributes(const OpEmitter &b) {
  Attributes out = windowAttributesOf(b.attrs());
  out.set("ceil_mode", b.op().attrInt("ceil_mode"));
  return out;
}

Attributes averageAttributes(const OpEmitter &b) {
  Attributes out = poolAttributes(b);
  out.set("count_include_pad", b.op().attrInt("count_include_pad"));
  return out;
}

// Each window takes the value at its maximum; a window entirely in the padding has position -1 and takes nothing.
void maxPoolGradVjp(VjpBuilder &b) {
  if (!b.wants(0)) return;
  const TensorIndex places = b.emitMany("MaxPool", {b.in(1)}, 2, poolAttributes(b))[1];
  const TensorIndex flat = emitReshape(b, b.gradOut(0), {b.outInfo(0).nelms()});
  b.grad(0, b.emit("Gather", {flat, places}, {{"zero_OOR", int64_t{1}}}));
}

void addMaxPool(OpDefs &rows) {
  constexpr TypeSet kMaxPoolTypes = kFloats | typeBit(DataType::INT8) | typeBit(DataType::UINT8);
  rows.push_back(poolRow("MaxPool", {1, 8, 10, 11, 12, 22}, kMaxPoolTypes)
                     .output("Indices", Arity::Optional)
                     .pieces([](const Op &op, InIndex cut, int axis, Pieces &pieces) {
                       return !op.hasOutput(1) && samplePieces<1>(op, cut, axis, pieces);  // indices count all samples
                     })
                     .attr("storage_order", int64_t{0})
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("MaxPoolGrad", {b.gradOut(0), b.in(0)}, poolAttributes(b)));
                     })
                     .doc("Maximum of each window."));
  rows.push_back(poolGradientRow("MaxPoolGrad")
                     .input("data", kFloats, "T")
                     .infer([](InferContext &c) { inferGradientOf(c, "MaxPool", {c.in(1)}); })
                     .vjp(maxPoolGradVjp)
                     .doc("Adds the gradient of each window to its first maximum."));
}

void addAveragePool(OpDefs &rows) {
  rows.push_back(
      poolRow("AveragePool", {1, 7, 10, 11, 19, 22}, kFloats)
          .attr("count_include_pad", int64_t{0})
          .vjp([](VjpBuilder &b) {
            Attributes attributes = averageAttributes(b);
            attributes.set("fwd_shape", b.inInfo(0).shape());
            b.grad(0, b.emit("AveragePoolGrad", {b.gradOut(0)}, attributes));
          })
          .doc("Mean of each window, over the elements inside the input or (count_include_pad) the padded input."));
  rows.push_back(poolGradientRow("AveragePoolGrad")
                     .attr("count_include_pad", int64_t{0})
                     .attrRequired("fwd_shape", AttributeType::Ints)
                     .infer([](InferContext &c) { inferGradientOf(c, "AveragePool", {forwardInfo(c)}); })
                     .vjp([](VjpBuilder &b) { b.grad(0, b.emit("AveragePool", {b.gradOut(0)}, averageAttributes(b))); })
                     .doc("Spreads the gradient of each mean over the elements that it counted."));
}

// sign(x) |x|^(p - 1)
Expression normSlope(const Expression &x, double p) {
  if (p > 3) return x * x.apply("Abs").apply("Pow", x.number(p - 2));
  return p == 1 ? x.apply("Sign") : p == 2 ? x : x * x.apply("Abs");
}
Expression oneForZero(const Expression &y) { return select(y.apply("Equal", y.number(0)), y.number(1), y); }

// sign(x) |x|^(p - 1) spread(g / y^(p - 1)), and 0 where y is 0. The gradient of an average that counts all positions,
// times their number, spreads a value over the elements of each window.
void decomposeLpPoolGrad(DecomposeBuilder &b) {
  const double p = static_cast<double>(b.op().attrInt("p"));
  const Expression g(b, b.in(0)), x(b, b.in(1)), y(b, b.in(2));
  Window window = windowOf(b.attrs());
  const Shape input = spatialShape(b.inInfo(1).shape()), output = spatialShape(b.inInfo(2).shape());
  for (size_t i = 0; i < window.rank(); ++i) {
    const int64_t end = (output[i] - 1) * window.strides[i] + window.extent(i);
    window.padsHigh[i] = std::max<int64_t>(end - input[i] - window.padsLow[i], 0);
  }
  Attributes average = windowAttributesOf(b.attrs());
  average.set("pads", window.pads());
  average.set("count_include_pad", int64_t{1});
  average.set("fwd_shape", b.inInfo(1).shape());
  const Expression isZero = y.apply("Equal", y.number(0)), norm = oneForZero(y);
  const Expression share = p == 1 ? g : g / (p == 2 ? norm : norm.apply("Pow", y.number(p - 1)));
  const Expression spread(b, b.emit("AveragePoolGrad", {select(isZero, g.number(0), share)}, average));
  b.result(0, normSlope(x, p) * spread * static_cast<double>(elementCount(window.kernel)));
}

void addLpPool(OpDefs &rows) {
  rows.push_back(poolRow("LpPool", {2, 11, 18, 22}, kFloats)
                     .attr("p", int64_t{2})
                     .infer([](InferContext &c) {
                       requireNorm(c);
                       inferPool(c);
                     })
                     .vjp([](VjpBuilder &b) {
                       Attributes attributes = poolAttributes(b);
                       attributes.set("p", b.op().attrInt("p"));
                       b.grad(0, b.emit("LpPoolGrad", {b.gradOut(0), b.in(0), b.out(0)}, attributes));
                     })
                     .cost(windowCost(3))
                     .doc("(sum |x|^p)^(1/p) of each window."));
  rows.push_back(poolGradientRow("LpPoolGrad")
                     .input("data", kFloats, "T")
                     .input("output", kFloats, "T")
                     .attr("p", int64_t{2})
                     .infer([](InferContext &c) {
                       ForwardOp(c, "LpPool", {c.in(1)}).gives(0, 0).gives(0, 2);
                       c.out(0, c.in(1));
                     })
                     .cost(windowCost(5))
                     .decompose(decomposeLpPoolGrad)
                     .doc("g sign(x) (|x| / y)^(p - 1), summed over the windows of each element."));
}

void inferGlobal(InferContext &c) {
  Shape out = c.shape(0);
  c.require(out.size() >= 2, "the input needs the dimensions (N, C, …): got shape {}", out);
  std::fill(out.begin() + 2, out.end(), 1);
  c.out(0, c.type(0), out);
}

OpDef globalRow(const char *type, std::vector<OpVersion> versions) {
  return OpDef("ai.onnx", type, std::move(versions))
      .input("X", kFloats)
      .output("Y")
      .infer(inferGlobal)
      .pieces(samplePieces<1>);
}

TensorIndex reduceSpatial(OpEmitter &b, TensorIndex x, const char *reduction) {
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < b.info(x).rank(); ++i) axes.push_back(i);
  return b.emit(reduction, {x}, {{"axes", axes}, {"keepdims", int64_t{1}}});
}

Attributes wholeWindow(const Shape &x) {
  const Shape kernel = spatialShape(x);
  const std::vector<int64_t> ones(kernel.size(), 1), zeros(2 * kernel.size(), 0);
  return {{"kernel_shape", kernel}, {"strides", ones}, {"dilations", ones}, {"pads", zeros}};
}

void addGlobalPools(OpDefs &rows) {
  rows.push_back(globalRow("GlobalAveragePool", {1, 22})
                     .vjp([](VjpBuilder &b) {
                       const Shape &x = b.inInfo(0).shape();
                       const double count = static_cast<double>(std::max<int64_t>(elementCount(spatialShape(x)), 1));
                       Expression mean = Expression(b, b.gradOut(0)) * (1.0 / count);
                       b.grad(0, b.emit("Expand", {mean}, {{"shape", x}}));
                     })
                     .decompose([](DecomposeBuilder &b) { b.result(0, reduceSpatial(b, b.in(0), "ReduceMean")); })
                     .doc("Mean over all spatial dimensions."));
  rows.push_back(globalRow("GlobalMaxPool", {1, 22})
                     .vjp([](VjpBuilder &b) {
                       const Shape &x = b.inInfo(0).shape();
                       b.grad(0, x.size() == 2 ? b.emit("Identity", {b.gradOut(0)})
                                               : b.emit("MaxPoolGrad", {b.gradOut(0), b.in(0)}, wholeWindow(x)));
                     })
                     .decompose([](DecomposeBuilder &b) { b.result(0, reduceSpatial(b, b.in(0), "ReduceMax")); })
                     .doc("Maximum over all spatial dimensions."));
  rows.push_back(globalRow("GlobalLpPool", {2, 22})
                     .attr("p", int64_t{2})
                     .infer([](InferContext &c) {
                       requireNorm(c);
                       inferGlobal(c);
                     })
                     .vjp([](VjpBuilder &b) {
                       const Expression g(b, b.gradOut(0)), x(b, b.in(0)), y(b, b.out(0));
                       if (b.inInfo(0).rank() == 2) return b.grad(0, g * x.apply("Sign"));  // of |x|
                       const auto p = static_cast<double>(b.op().attrInt("p"));
                       b.grad(0, g * normSlope(x / oneForZero(y), p));  // where y is 0, all x are 0
                     })
                     .decompose([](DecomposeBuilder &b) {
                       const double p = static_cast<double>(b.op().attrInt("p"));
                       if (p <= 2) return b.result(0, reduceSpatial(b, b.in(0), p == 1 ? "ReduceL1" : "ReduceL2"));
                       Expression magnitude = Expression(b, b.in(0)).apply("Abs");
                       Expression sum(b, reduceSpatial(b, magnitude.apply("Pow", magnitude.number(p)), "ReduceSum"));
                       b.result(0, sum.apply("Pow", sum.number(1.0 / p)));
                     })
                     .doc("(sum |x|^p)^(1/p) over all spatial dimensions."));
}

}  // namespace

OpDefs poolOps() {
  OpDefs rows;
  addMaxPool(rows);
  addAveragePool(rows);
  addLpPool(rows);
  addGlobalPools(rows);
  for (OpDef &row : rows) row.precision(Precision::Follows);
  return rows;
}

}  // namespace popart::ops
