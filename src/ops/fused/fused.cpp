// Rows of the ops that fusion makes (src/lower): element-wise clusters, matrix products with an element-wise epilogue,
// layout changes, and the assignment at the end of a program in functional form. They occur only in lowered graphs.
#include <algorithm>

#include <popart/graph.hpp>

#include "base/half_types.hpp"
#include "ops/catalog.hpp"
#include "ops/comm/collective_rules.hpp"
#include "ops/forward_op.hpp"
#include "ops/fused/permutation.hpp"
#include "ops/nn/window.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

// A body graph whose inputs are `given` and then the op's inputs [first, end).
const Graph &checkedBody(InferContext &c, const char *attribute, std::vector<TensorInfo> given, int first, int end) {
  const Graph &body = c.graph(attribute);
  for (int i = first; i < end; ++i) given.push_back(c.in(i));
  c.require(body.inputs().size() == given.size(), "its graph takes {} inputs, expected {}", body.inputs().size(),
            given.size());
  for (size_t i = 0; i < given.size(); ++i)
    c.require(body.info(body.inputs()[i]) == given[i], "input {} of its graph is {}, expected {}", i,
              body.info(body.inputs()[i]), given[i]);
  return body;
}

// Outputs of an op whose body graph computes them, without the last `otherOutputs`: the infos of the body's outputs.
// The body takes `given` (the product, when there is one) and then the op's inputs from `first` on, without the last
// `others`.
void outputsOfBody(InferContext &c, const char *attribute, std::vector<TensorInfo> given, int first, int others = 0,
                   int otherOutputs = 0) {
  const Graph &body = checkedBody(c, attribute, std::move(given), first, c.inputCount() - others);
  const int count = c.outputCount() - otherOutputs;
  c.require(static_cast<int>(body.outputs().size()) == count, "body gives {} outputs, expected {}",
            body.outputs().size(), count);
  for (int i = 0; i < count; ++i) c.out(i, body.info(body.outputs()[i]));
}

Shape transposedMatrix(Shape shape, bool transpose) {
  if (transpose && shape.size() >= 2) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

// The type of a product: 16-bit operands are multiplied and added in FLOAT, and rounded as `rounded` says.
DataType fusedProductType(InferContext &c) {
  const DataType operands = c.type(0);
  const bool isRounded = c.hasAttr("rounded") && c.attrInt("rounded") != 0;
  return isHalf(operands) && !isRounded ? DataType::FLOAT : operands;
}

// NumPy matmul of two operands of rank >= 2.
void inferProduct(InferContext &c) {
  const Shape a = transposedMatrix(permuted(c, "perm_a", c.shape(0)), c.attrInt("trans_a") != 0);
  const Shape b = transposedMatrix(permuted(c, "perm_b", c.shape(1)), c.attrInt("trans_b") != 0);
  c.require(a.size() >= 2 && b.size() >= 2, "operands need rank >= 2: got {} and {}", a, b);
  c.require(a.back() == b[b.size() - 2], "inner dimensions differ: got {} and {}", a, b);
  Shape out = npOut(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2), c.op().debugName());
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  if (!c.hasAttr("epilogue")) return c.out(0, fusedProductType(c), permuted(c, "perm_out", out));
  c.require(!c.hasAttr("perm_out"), "a product with an epilogue cannot permute its result");
  outputsOfBody(c, "epilogue", {TensorInfo(fusedProductType(c), out)}, 2);
}

// Checks a (…, M, K) and rows of K packed numbers.
void inferPackedProduct(InferContext &c) {
  const TensorInfo rows =
      ForwardOp(
          c, "DequantizePacked", {c.in(1), c.in(2)},
          {{"bits", c.attrInt("bits")}, {"block_size", c.attrInt("block_size")}, {"columns", c.attrInt("columns")}})
          .output(0);
  c.require(!c.hasIn(3) || c.shape(3) == c.shape(2), "zero points must have the shape of scales: got {} and {}",
            c.hasIn(3) ? c.shape(3) : Shape{}, c.shape(2));
  Shape out = c.shape(0);
  c.require(out.size() >= 2 && out.back() == rows.shape()[1], "inner dimensions differ: got {} and {}", out,
            rows.shape());
  out.back() = rows.shape()[0];
  const TensorInfo product(DataType::FLOAT, out);
  if (!c.hasAttr("epilogue")) return c.out(0, product);
  outputsOfBody(c, "epilogue", {product}, 4);
}

// The last output of a convolution: means of output means_of, which is `of`, over its spatial dimensions.
void inferMeans(InferContext &c, const TensorInfo &of) {
  std::vector<int64_t> spatial;
  for (int64_t d = 2; d < of.rank(); ++d) spatial.push_back(d);
  const int64_t keeps = c.hasAttr("means_keepdims") ? c.attrInt("means_keepdims") : 1;
  c.out(c.outputCount() - 1, ForwardOp(c, "ReduceMean", {of}, {{"axes", spatial}, {"keepdims", keeps}}).output(0));
}

void inferFusedConv(InferContext &c) {
  int others = 0;  // operands of the prologue, the last inputs
  if (c.hasAttr("prologue")) {
    others = static_cast<int>(c.hasAttr("prologue_operands") ? c.attrInt("prologue_operands") : 0);
    c.require(others == 0 || (others > 0 && others + 3 <= c.inputCount()),
              "prologue_operands is out of range: got {} of {} inputs", others, c.inputCount());
    const Graph &body = checkedBody(c, "prologue", {c.in(0)}, c.inputCount() - others, c.inputCount());
    c.require(body.outputs().size() == 1 && body.info(body.outputs()[0]) == c.in(0),
              "its prologue must give one tensor like X: got {} results", body.outputs().size());
  }
  const TensorInfo out = ForwardOp(c, "Conv", {c.in(0), c.in(1), c.hasIn(2) ? c.in(2) : TensorInfo()}).output(0);
  const int means = c.hasAttr("means_of") ? 1 : 0;
  c.require(!means || (c.attrInt("means_of") >= 0 && c.attrInt("means_of") < c.outputCount() - 1),
            "means_of must be another output than the last one: got {} of {} outputs",
            means ? c.attrInt("means_of") : 0, c.outputCount());
  if (!c.hasAttr("epilogue")) {
    if (means) inferMeans(c, out);
    c.require(c.inputCount() - others <= 3,
              "operands without an epilogue that reads them: got {} inputs, expected up "
              "to 3",
              c.inputCount() - others);
    return c.out(0, out);
  }
  outputsOfBody(c, "epilogue", {out}, 3, others, means);
  if (!means) return;
  const Graph &epilogue = c.graph("epilogue");
  inferMeans(c, epilogue.info(epilogue.outputs()[static_cast<size_t>(c.attrInt("means_of"))]));
}

void bodyCost(const Op &op, Cost &c) { c.flops = bodyFlops(op); }

// The product before the epilogue.
const TensorInfo &productInfo(const Op &op) {
  if (!op.hasAttr("epilogue")) return op.outInfo(0);
  const Graph &epilogue = op.getIr().getGraph(op.attributes().getAttribute<GraphRef>("epilogue").id);
  return epilogue.info(epilogue.inputs()[0]);
}

// The dimension that FusedMatMul sums over.
int64_t innerDimension(const Op &op) {
  const size_t last = op.inShape(0).size() - (op.attrInt("trans_a") != 0 ? 2 : 1);
  return op.inShape(0)[op.hasAttr("perm_a") ? static_cast<size_t>(op.attrInts("perm_a")[last]) : last];
}

// Each result replaces one operand in its memory; no two results replace the same operand.
void inferCollectiveUpdate(InferContext &c) {
  requireCollective(c);
  outputsOfBody(c, "body", {}, 0);
  const std::vector<int64_t> &replaces = c.attrInts("replaces");
  c.require(static_cast<int>(replaces.size()) == c.outputCount(),
            "needs one operand to replace per result: got {} for {} results", replaces.size(), c.outputCount());
  for (int o = 0; o < c.outputCount(); ++o) {
    const int64_t i = replaces[static_cast<size_t>(o)];
    c.require(i >= 0 && i < c.inputCount(), "the operand that result {} replaces is out of range: got {}", o, i);
    c.require(std::ranges::count(replaces, i) == 1, "two results replace operand {}", i);
    const TensorInfo &result = c.graph("body").info(c.graph("body").outputs()[static_cast<size_t>(o)]);
    c.require(c.in(static_cast<int>(i)) == result, "result {} cannot replace operand {}: got {} for {}", o, i, result,
              c.in(static_cast<int>(i)));
  }
}

OpDef convolutionRow(const char *type) {
  OpDef row("popart", type, {1});
  windowAttributes(row)
      .attrOptional("kernel_shape", AttributeType::Ints)
      .attr("group", int64_t{1})
      .attrOptional(kAnySumOrder, AttributeType::Int)
      .attrOptional("epilogue", AttributeType::Graph)
      .traits(Trait::Internal | Trait::Spatial)
      .notOnnx()
      .noGrad("it is made after differentiation");
  return row;
}

}  // namespace

Shape permuted(InferContext &c, const char *name, const Shape &shape) {
  if (!c.hasAttr(name)) return shape;
  const auto &perm = c.attrInts(name);
  std::vector<bool> seen(shape.size(), false);
  bool fits = perm.size() == shape.size();
  for (size_t i = 0; fits && i < perm.size(); ++i) {
    fits = perm[i] >= 0 && perm[i] < static_cast<int64_t>(shape.size()) && !seen[static_cast<size_t>(perm[i])];
    if (fits) seen[static_cast<size_t>(perm[i])] = true;
  }
  c.require(fits, "{} is not a permutation of the operand's dimensions: got {} for {}", name, perm, shape);
  Shape result;
  for (int64_t axis : perm) result.push_back(shape[static_cast<size_t>(axis)]);
  return result;
}

OpDef extremesRow() {
  return OpDef("popart", "ReduceExtremes", {1})
      .input("data", kAllTypes)
      .output("least")
      .output("greatest")
      .attrOptional("axes", AttributeType::Ints)
      .attr("keepdims", int64_t{1})
      .notOnnx()
      .infer([](InferContext &c) {
        const Shape shape = reducedShape(c.shape(0), reductionAxes(c), c.attrInt("keepdims") != 0);
        for (int i : {0, 1}) c.out(i, c.type(0), shape);
      })
      .cost(perElement(2))
      .noGrad("it is made after differentiation")
      .decompose([](DecomposeBuilder &b) {
        b.result(0, b.emit("ReduceMin", {b.in(0)}, b.attrs()));
        b.result(1, b.emit("ReduceMax", {b.in(0)}, b.attrs()));
      })
      .doc("The results of ReduceMin and ReduceMax, computed in one pass.");
}

// Each channel of the result is a channel of one of the tensors (N, C, spatial…): channels[i] of input inputs[i].
OpDef pickedChannelsRow() {
  return OpDef("popart", "PickChannels", {1})
      .input("tensors", kStoredTypes, "T", Arity::Variadic)
      .output("picked")
      .attrRequired("inputs", AttributeType::Ints)
      .attrRequired("channels", AttributeType::Ints)
      .notOnnx()
      .infer([](InferContext &c) {
        c.require(c.inputCount() > 0 && c.in(0).rank() >= 2, "needs tensors (N, C, …): got {} inputs", c.inputCount());
        const auto &inputs = c.attrInts("inputs"), &channels = c.attrInts("channels");
        c.require(inputs.size() == channels.size() && !inputs.empty(),
                  "needs channels, and an input for each: got {} inputs for {}", inputs.size(), channels.size());
        Shape shape = c.shape(0);
        for (int i = 0; i < c.inputCount(); ++i) {
          shape[1] = c.shape(i).size() > 1 ? c.shape(i)[1] : 0;
          c.require(c.shape(i) == shape, "shapes differ in other dimensions than 1: got {} and {}", c.shape(0),
                    c.shape(i));
        }
        for (size_t k = 0; k < inputs.size(); ++k) {
          const bool isInput = inputs[k] >= 0 && inputs[k] < c.inputCount();
          c.require(isInput && channels[k] >= 0 && channels[k] < c.shape(static_cast<int>(inputs[k]))[1],
                    "channel {} of input {} is none of theirs", channels[k], inputs[k]);
        }
        shape[1] = static_cast<int64_t>(channels.size());
        c.out(0, c.type(0), shape);
      })
      .layouts(channelsOfAll)
      .cost(movesData())
      .noGrad("it is made after differentiation")
      .decompose([](DecomposeBuilder &b) {
        std::vector<TensorIndex> picked;
        for (size_t k = 0; k < b.op().attrInts("channels").size(); ++k) {
          const int64_t channel = b.op().attrInts("channels")[k];
          using Ints = std::vector<int64_t>;
          picked.push_back(b.emit("Slice", {b.in(static_cast<int>(b.op().attrInts("inputs")[k]))},
                                  {{"axes", Ints{1}}, {"starts", Ints{channel}}, {"ends", Ints{channel + 1}}}));
        }
        b.result(0, b.emit("Concat", picked, {{"axis", int64_t{1}}}));
      })
      .doc("The result of concatenations, slices and shuffles of channels, computed as one copy.");
}

OpDefs fusedOps() {
  OpDefs rows;
  rows.push_back(extremesRow());
  rows.push_back(pickedChannelsRow());
  rows.push_back(
      OpDef("popart", "FusedElementwise", {1})
          .input("operands", kAllTypes, "", Arity::Variadic)
          .output("results", Arity::Variadic)
          .attrRequired("body", AttributeType::Graph)
          .traits(Trait::Internal)
          .notOnnx()
          .infer([](InferContext &c) { outputsOfBody(c, "body", {}, 0); })
          .layouts(uniformIfResultShape)
          .role(Role::FusedElementwise)
          .cost(bodyCost)
          .noGrad("it is made after differentiation")
          .doc("Element-wise ops with the same output shape, computed block by block. The inputs of the body are the "
               "operands in order."));
  rows.push_back(OpDef("popart", "DepthFirst", {1})
                     .input("operands", kAllTypes, "", Arity::Variadic)
                     .output("results", Arity::Variadic)
                     .attrRequired("body", AttributeType::Graph)
                     .attrRequired("parts", AttributeType::Int)
                     .traits(Trait::Internal)
                     .notOnnx()
                     .infer([](InferContext &c) {
                       c.require(c.attrInt("parts") > 1, "parts must be 2 or more: got {}", c.attrInt("parts"));
                       outputsOfBody(c, "body", {}, 0);
                     })
                     .cost(bodyCost)
                     .noGrad("it is made after differentiation")
                     .doc("Ops that can be divided into the same independent parts; each part runs through all ops. "
                          "The inputs of the body are the operands in order."));
  rows.push_back(OpDef("popart", "FusedMatMul", {1})
                     .input("a", kFloats, "T")
                     .input("b", kFloats, "T")
                     .input("extras", kAllTypes, "", Arity::Variadic)
                     .output("results", Arity::Variadic)
                     .attr("trans_a", int64_t{0})
                     .attr("trans_b", int64_t{0})
                     .attrOptional("perm_a", AttributeType::Ints)
                     .attrOptional("perm_b", AttributeType::Ints)
                     .attrOptional("perm_out", AttributeType::Ints)
                     .attrOptional("rounded", AttributeType::Int)
                     .attrOptional("epilogue", AttributeType::Graph)
                     .traits(Trait::Internal)
                     .notOnnx()
                     .infer(inferProduct)
                     .layouts(productLayouts)
                     .role(Role::FusedMatMul)
                     .cost([](const Op &op, Cost &c) {
                       c.flops = bodyFlops(op) + productFlops(productInfo(op).nelms(), innerDimension(op));
                     })
                     .noGrad("it is made after differentiation")
                     .doc("epilogue(op(a) @ op(b), extras…). The first input of the epilogue graph is the product, in "
                          "FLOAT for 16-bit operands unless it is rounded to their type. Dimensions of operands and "
                          "result may be permuted as by Transpose."));
  rows.push_back(OpDef("popart", "PackedMatMul", {1})
                     .input("a", typeBit(DataType::FLOAT))
                     .input("packed", typeBit(DataType::UINT8))
                     .input("scale", typeBit(DataType::FLOAT))
                     .input("zero", typeBit(DataType::UINT8) | typeBit(DataType::FLOAT), "", Arity::Optional)
                     .input("extras", kAllTypes, "", Arity::Variadic)
                     .output("results", Arity::Variadic)
                     .attrRequired("bits", AttributeType::Int)
                     .attrRequired("block_size", AttributeType::Int)
                     .attrRequired("columns", AttributeType::Int)
                     .attr("zero_point", 0.0f)
                     .attrOptional("epilogue", AttributeType::Graph)
                     .traits(Trait::Internal)
                     .notOnnx()
                     .infer(inferPackedProduct)
                     .layouts([](const Op &op, OperandLayouts &layouts) {
                       for (int i : {1, 2, 3})
                         if (op.hasInput(i)) layouts.in[static_cast<size_t>(i)] = OperandLayout::Chosen;
                     })
                     .role(Role::PackedMatMul)
                     .cost([](const Op &op, Cost &c) {
                       c.flops = bodyFlops(op) + productFlops(productInfo(op).nelms(), op.attrInt("columns"));
                     })
                     .noGrad("it is made after differentiation")
                     .doc("epilogue(a @ transposed(DequantizePacked(packed, scale, zero)), extras…). The first input "
                          "of the epilogue graph is the product. Zero points may be UINT8, one in each byte."));
  rows.push_back(
      convolutionRow("FusedConv")
          .role(Role::FusedConv)
          .cost([](const Op &op, Cost &c) {
            c.flops = bodyFlops(op) + convFlops(productInfo(op), op.inShape(1)) +
                      (op.hasAttr("means_of") ? static_cast<double>(productInfo(op).nelms()) : 0);
          })
          .input("X", kFloats, "T")
          .input("W", kFloats, "T")
          .input("B", kFloats, "T", Arity::Optional)
          .input("extras", kAllTypes, "", Arity::Variadic)
          .output("results", Arity::Variadic)
          .attrOptional("prologue", AttributeType::Graph)
          .attrOptional("prologue_operands", AttributeType::Int)
          .attrOptional("means_of", AttributeType::Int)
          .attrOptional("means_keepdims", AttributeType::Int)
          .infer(inferFusedConv)
          .layouts(convolutionLayouts)
          .doc("epilogue(Conv(prologue(X), W, B), extras…). The first input of the epilogue graph is the convolution, "
               "the first of the prologue graph is X. The last prologue_operands inputs belong to the prologue. With "
               "means_of, the last result is the mean of that result over its spatial dimensions."));
  rows.push_back(
      convolutionRow("FusedConvDataGrad")
          .role(Role::FusedConvDataGrad)
          .cost([](const Op &op, Cost &c) { c.flops = bodyFlops(op) + convFlops(op.inInfo(0), op.inShape(1)); })
          .input("grad_out", kFloats, "T")
          .input("weights", kFloats, "T")
          .input("extras", kAllTypes, "", Arity::Variadic)
          .output("results", Arity::Variadic)
          .attrRequired("fwd_shape", AttributeType::Ints)
          .infer([](InferContext &c) {
            c.require(c.hasAttr("epilogue"), "it has no epilogue: a data gradient alone is ConvDataGrad");
            const TensorInfo data = forwardInfo(c);
            requireConvGradient(c, data, c.in(1));
            outputsOfBody(c, "epilogue", {data}, 2);
          })
          .layouts(dataGradientLayouts)
          .doc("epilogue(ConvDataGrad(grad_out, weights), extras…). The first input of the epilogue graph is the data "
               "gradient, or the transposed convolution."));
  rows.push_back(
      convolutionRow("FusedConvWeightsGrad")
          .role(Role::FusedConvWeightsGrad)
          .cost([](const Op &op, Cost &c) {
            c.flops = bodyFlops(op) + convFlops(op.inInfo(0), op.attrInts("fwd_shape"));
          })
          .input("grad_out", kFloats, "T")
          .input("data", kFloats, "T")
          .input("extras", kAllTypes, "", Arity::Variadic)
          .output("results", Arity::Variadic)
          .attrRequired("fwd_shape", AttributeType::Ints)
          .infer([](InferContext &c) {
            c.require(c.hasAttr("epilogue"), "it has no epilogue: a weight gradient alone is ConvWeightsGrad");
            const TensorInfo weights = forwardInfo(c);
            requireConvGradient(c, c.in(1), weights);
            outputsOfBody(c, "epilogue", {weights}, 2);
          })
          .layouts(weightGradientLayouts)
          .doc("epilogue(ConvWeightsGrad(grad_out, data), extras…): a weight gradient fused with the update of the "
               "weight."));
  rows.push_back(
      OpDef("popart", "CollectiveUpdate", {1})
          .cost([](const Op &op, Cost &c) {
            c.flops = bodyFlops(op) +
                      static_cast<double>(op.inInfo(0).nelms()) * (static_cast<double>(op.attrInt("group_size")) - 1);
          })
          .input("gradient", kNumeric)
          .input("operands", kAllTypes, "", Arity::Variadic)
          .output("results", Arity::Variadic)
          .attr("op", std::string("Add"))
          .attr("group_size", int64_t{1})
          .attr("stride", int64_t{1})
          .attrOptional("channel", AttributeType::Int)
          .attrRequired("body", AttributeType::Graph)
          .attrRequired("replaces", AttributeType::Ints)
          .traits(Trait::Internal)
          .notOnnx()
          .infer(inferCollectiveUpdate)
          .layouts(uniformIfResultShape)
          .noGrad("it is made after differentiation")
          .doc("body(CollectiveReduce(gradient), operands…). The other operands are equal on all members. Each "
               "element is computed once, and written for every member into the operand that the result replaces."));
  rows.push_back(OpDef("popart", "Reorder", {1})
                     .cost(movesData())
                     .input("x", kStoredTypes)
                     .output("y")
                     .traits(Trait::Internal)
                     .notOnnx()
                     .noGrad("it is made after differentiation")
                     .doc("The same values in another memory layout."));
  rows.push_back(OpDef("popart", "LoopRow", {1})
                     .role(Role::LoopRow)
                     .layouts(pieceOfChannels)
                     .cost([](const Op &, Cost &c) { c = {}; })
                     .input("stack", kStoredTypes)
                     .input("iteration", typeBit(DataType::INT64))
                     .output("rows")
                     .attrRequired("first", AttributeType::Int)
                     .attrRequired("step", AttributeType::Int)
                     .attr("rows", int64_t{1})
                     .traits(Trait::Internal)
                     .notOnnx()
                     .infer([](InferContext &c) {
                       Shape shape = c.shape(0);
                       c.require(!shape.empty() && c.attrInt("rows") >= 1 && c.attrInt("rows") <= shape[0],
                                 "rows must be between 1 and the stack's: got {} for shape {}", c.attrInt("rows"),
                                 shape);
                       shape[0] = c.attrInt("rows");
                       c.out(0, c.in(0).dataType(), shape);
                     })
                     .noGrad("it is made after differentiation")
                     .doc("Rows of a stack that a loop does not change, read in place: from row first + iteration * "
                          "step on."));
  rows.push_back(OpDef("popart", "VariableAssign", {1})
                     .role(Role::VariableAssign)
                     .cost([](const Op &op, Cost &c) {
                       const auto bytes = static_cast<double>(op.inInfo(1).nbytes());
                       c = {0, bytes, bytes};
                     })
                     .input("variable", kStoredTypes, "T")
                     .input("value", kStoredTypes, "T")
                     .traits(Trait::Internal | Trait::SideEffect)
                     .layouts(allUniform)
                     .notOnnx()
                     .infer([](InferContext &c) {
                       const Tensor &variable = *c.op().inTensor(0);
                       c.require(variable.tensorType() == TensorType::Variable,
                                 "input 0 is not a variable: got tensor '{}'. Assign to variables only", variable.id);
                       c.require(c.shape(0) == c.shape(1), "shapes differ: got {} for the variable, {} for the value",
                                 c.shape(0), c.shape(1));
                     })
                     .noGrad("it is made after differentiation")
                     .doc("Assigns `value` to the variable, from the next run of the program on."));
  return rows;
}

}  // namespace popart::ops
