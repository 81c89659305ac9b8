// Small models of every operator family, made with the library's own builder; what builders do not make (functions,
// loops, branches, external data) is written as messages.
#include "models.hpp"

#include <popart/error.hpp>
#include <popart/half.hpp>

#include "backends/ref/ref.hpp"
#include "onnx/builder.hpp"
#include "onnx_proto/onnx.pb.h"
#include "operator_models.hpp"

namespace popart::fuzz {
namespace {

using onnx::BuilderAttributes;
using onnx::ModelBuilder;
using onnx_proto::AttributeProto;
using onnx_proto::GraphProto;
using onnx_proto::ModelProto;
using Ints = std::vector<int64_t>;

TensorData integers(const Ints &values) {
  return TensorData::of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

TensorData numbers(const Shape &shape) {
  std::vector<float> values(static_cast<size_t>(elementCount(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) * 0.25f - 0.5f;
  return TensorData::of<float>(shape, values);
}

struct Chain {
  ModelBuilder b{ref::evaluate};
  int64_t opset = 18;
  TensorId add(const std::string &type, const std::vector<TensorId> &inputs, const BuilderAttributes &attributes = {},
               int outputs = 1) {
    return b.addNode("ai.onnx", opset, type, inputs, outputs, attributes).front();
  }
  TensorId addOwn(const std::string &type, const std::vector<TensorId> &inputs,
                  const BuilderAttributes &attributes = {}, int outputs = 1) {
    return b.addNode("ai.graphcore", 1, type, inputs, outputs, attributes).front();
  }
  TensorId cast(const TensorId &x, DataType type) { return add("Cast", {x}, {{"to", int64_t{toOnnxDataType(type)}}}); }
  TensorId weights(const Shape &shape) { return b.addInitializedInputTensor(numbers(shape)); }
  TensorId constant(const Ints &values) { return add("Constant", {}, {{"value", integers(values)}}); }
  TensorId input(const Shape &shape) { return b.addInputTensor(TensorInfo(DataType::FLOAT, shape)); }
  std::string model(const TensorId &output) {
    b.addOutputTensor(output);
    return b.getModelProto();
  }
};

std::string imageModel() {
  Chain c;
  TensorId x = c.input({1, 2, 6, 6});
  x = c.add("Conv", {x, c.weights({4, 2, 3, 3}), c.weights({4})},
            {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
  x = c.add("BatchNormalization", {x, c.weights({4}), c.weights({4}), c.weights({4}), c.add("Exp", {c.weights({4})})},
            {{"epsilon", 0.1f}});
  x = c.add("MaxPool", {c.add("Relu", {x})}, {{"kernel_shape", Ints{2, 2}}});
  x = c.add("ConvTranspose", {x, c.weights({4, 2, 2, 2})}, {{"strides", Ints{2, 2}}});
  x = c.add("AveragePool", {x}, {{"kernel_shape", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}});
  x = c.add("Reshape", {x, c.constant({1, -1})});
  x = c.add("Gemm", {x, c.weights({3, 32}), c.weights({3})}, {{"transB", int64_t{1}}, {"alpha", 0.5f}});
  return c.model(c.add("Softmax", {x}));
}

std::string indexModel() {
  Chain c;
  TensorId x = c.input({4, 6});
  x = c.add("Slice", {x, c.constant({0, 5}), c.constant({4, 0}), c.constant({0, 1}), c.constant({1, -2})});
  x = c.add("Pad", {x, c.constant({1, 0, 0, 2})}, {{"mode", std::string("reflect")}});
  x = c.add("Gather", {x, c.constant({0, 2, -1})}, {{"axis", int64_t{1}}});
  x = c.add("Transpose", {x}, {{"perm", Ints{1, 0}}});
  x = c.add("Concat", {x, x}, {{"axis", int64_t{1}}});
  x = c.add("TopK", {x, c.constant({2})}, {{"axis", int64_t{1}}}, 2);
  x = c.add("Expand", {x, c.constant({2, 1, 1})});
  x = c.add("Tile", {x, c.constant({1, 2, 1})});
  x = c.add("CumSum", {x, c.constant({2})});
  x = c.add("ScatterND", {x, c.add("Unsqueeze", {c.constant({0}), c.constant({0})}), c.weights({1, 6, 2})});
  x = c.add("ReduceSum", {x, c.constant({1})}, {{"keepdims", int64_t{0}}});
  return c.model(c.add("Split", {x}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, 2));
}

std::string shapeModel() {
  Chain c;
  const TensorId x = c.input({2, 3, 4});
  const TensorId shape = c.add("Shape", {x});
  const TensorId dim = c.add("Gather", {shape, c.constant({0})});
  const TensorId target = c.add("Concat", {dim, c.constant({-1})}, {{"axis", int64_t{0}}});
  const TensorId flat = c.add("Reshape", {x, target});
  const TensorId filled = c.add("ConstantOfShape", {c.add("Shape", {flat})}, {{"value", numbers({1})}});
  TensorId y = c.add("MatMul", {c.add("Add", {flat, filled}), c.weights({12, 5})});
  y = c.add("LayerNormalization", {y, c.weights({5}), c.weights({5})});
  return c.model(c.add("Where", {c.add("Greater", {y, c.weights({1})}), y, c.add("Clip", {y, c.weights({})})}));
}

void describe(onnx_proto::ValueInfoProto *value, const std::string &name, int type, const Ints &dims) {
  value->set_name(name);
  auto *tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (int64_t d : dims) tensor->mutable_shape()->add_dim()->set_dim_value(d);
}

onnx_proto::NodeProto *addNode(GraphProto *graph, const std::string &type, const std::vector<std::string> &inputs,
                               const std::vector<std::string> &outputs) {
  auto *node = graph->add_node();
  node->set_op_type(type);
  for (const auto &name : inputs) node->add_input(name);
  for (const auto &name : outputs) node->add_output(name);
  return node;
}

// A function, a loop whose body reads a tensor from outside, and a branch.
std::string controlModel() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto *own = model.add_opset_import();
  own->set_domain("own");
  own->set_version(1);
  auto *function = model.add_functions();
  function->set_name("Twice");
  function->set_domain("own");
  function->add_input("a");
  function->add_output("b");
  function->add_opset_import()->set_version(17);
  auto *doubled = function->add_node();
  doubled->set_op_type("Add");
  doubled->add_input("a");
  doubled->add_input("a");
  doubled->add_output("b");
  GraphProto *graph = model.mutable_graph();
  describe(graph->add_input(), "x", 1, {3});
  describe(graph->add_input(), "choose", 9, {});
  addNode(graph, "Twice", {"x"}, {"twice"})->set_domain("own");
  auto *trips = graph->add_initializer();
  trips->set_name("trips");
  trips->set_data_type(7);
  trips->add_int64_data(3);
  auto *loop = addNode(graph, "Loop", {"trips", "", "twice"}, {"carried", "scanned"})->add_attribute();
  loop->set_name("body");
  loop->set_type(AttributeProto::GRAPH);
  GraphProto *body = loop->mutable_g();
  describe(body->add_input(), "i", 7, {});
  describe(body->add_input(), "go", 9, {});
  describe(body->add_input(), "v", 1, {3});
  addNode(body, "Identity", {"go"}, {"on"});
  addNode(body, "Mul", {"v", "x"}, {"next"});
  addNode(body, "Neg", {"next"}, {"scan"});
  for (const char *name : {"on", "next", "scan"}) body->add_output()->set_name(name);
  auto *branch = addNode(graph, "If", {"choose"}, {"y"});
  for (const char *name : {"then_branch", "else_branch"}) {
    auto *attribute = branch->add_attribute();
    attribute->set_name(name);
    attribute->set_type(AttributeProto::GRAPH);
    addNode(attribute->mutable_g(), name[0] == 't' ? "Relu" : "Neg", {"carried"}, {std::string(name) + "_y"});
    attribute->mutable_g()->add_output()->set_name(std::string(name) + "_y");
  }
  graph->add_output()->set_name("y");
  graph->add_output()->set_name("scanned");
  return model.SerializeAsString();
}

// Every element-wise row of one input that ONNX has at version 18, of x in (0.1, 0.9); then their sum.
std::string elementwiseModel() {
  Chain c;
  const TensorId x =
      c.add("Add", {c.add("Mul", {c.add("Sigmoid", {c.input({2, 5})}), c.weights({1})}), c.weights({5})});
  const TensorId positive = c.add("Abs", {x});
  std::vector<TensorId> results;
  for (const char *type :
       {"Acos", "Asin",       "Asinh",    "Atan",  "Atanh",       "Ceil",           "Celu",     "Cos",       "Cosh",
        "Elu",  "Erf",        "Exp",      "Floor", "HardSigmoid", "HardSwish",      "Identity", "LeakyRelu", "Mish",
        "Neg",  "Reciprocal", "Relu",     "Round", "Selu",        "Shrink",         "Sigmoid",  "Sign",      "Sin",
        "Sinh", "Softplus",   "Softsign", "Tan",   "Tanh",        "ThresholdedRelu"})
    results.push_back(c.add(type, {x}));
  for (const char *type : {"Sqrt", "Log"}) results.push_back(c.add(type, {positive}));
  results.push_back(c.add("Acosh", {c.add("Exp", {positive})}));
  results.push_back(c.add("PRelu", {x, c.weights({5})}));
  results.push_back(c.add("Pow", {positive, c.weights({2, 1})}));
  for (const char *type : {"Gelu", "GeluErf", "Expm1", "Log1p", "NearbyInt", "Swish"})
    results.push_back(c.addOwn(type, {positive}));
  results.push_back(c.addOwn("Scale", {x}, {{"scale", 0.5f}}));
  results.push_back(c.addOwn("Atan2", {x, positive}));
  results.push_back(c.addOwn("Fmod", {x, positive}));
  const TensorId mean = c.add("Mean", results), most = c.add("Max", results), least = c.add("Min", results);
  return c.model(c.add("Sum", {c.add("Div", {mean, c.add("Exp", {x})}), c.add("Sub", {most, least})}));
}

// Comparisons, booleans, bits and integers of several widths.
std::string logicModel() {
  Chain c;
  const TensorId x = c.input({3, 4}), w = c.weights({4});
  const TensorId less = c.add("Less", {x, w}), equal = c.add("Equal", {x, w});
  const TensorId either = c.add("Or", {less, c.add("Not", {equal})});
  const TensorId both = c.add("And", {either, c.add("Xor", {c.add("LessOrEqual", {x, w}), c.add("IsNaN", {x})})});
  const TensorId count = c.cast(c.add("Or", {both, c.add("GreaterOrEqual", {w, x})}), DataType::INT32);
  const TensorId bits = c.add("BitwiseAnd", {c.add("BitwiseOr", {count, c.cast(x, DataType::INT32)}), count});
  const TensorId bytes = c.cast(c.add("BitwiseXor", {bits, c.add("BitwiseNot", {count})}), DataType::UINT8);
  const TensorId shifted =
      c.add("BitShift", {bytes, c.cast(count, DataType::UINT8)}, {{"direction", std::string("LEFT")}});
  const TensorId divisor = c.add("Max", {c.cast(bits, DataType::INT64), c.constant({1})});
  const TensorId small = c.add("Div", {c.cast(shifted, DataType::INT8), c.cast(divisor, DataType::INT8)});
  const TensorId wide = c.add("Mul", {c.cast(small, DataType::INT64), c.constant({3})});
  const TensorId most = c.add("Max", {wide, c.constant({-5}), c.cast(x, DataType::INT64)});
  return c.model(c.add("Where", {c.add("IsInf", {x}), c.cast(most, DataType::FLOAT), x}));
}

// Every reduction, and what orders elements.
std::string reduceModel() {
  Chain c;
  const TensorId x = c.input({2, 3, 4});
  const TensorId positive = c.add("Exp", {x});
  std::vector<TensorId> results;
  for (const char *type : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                           "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"})
    results.push_back(c.add(type, {positive, c.constant({1, -1})}));
  results.push_back(c.add("ReduceMax", {x, ""}, {{"keepdims", int64_t{0}}}));
  for (const char *type : {"ArgMax", "ArgMin"}) {
    const TensorId index = c.add(type, {x}, {{"axis", int64_t{-1}}, {"select_last_index", int64_t{1}}});
    results.push_back(c.add("ReduceMean", {c.cast(index, DataType::FLOAT), c.constant({1})}));
  }
  const TensorId sums = c.add("CumSum", {x, c.constant({1})}, {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}});
  results.push_back(c.add("ReduceSum", {sums, c.constant({2, 1})}));
  results.push_back(c.addOwn("ReduceMedian", {x}, {{"axes", Ints{1, 2}}, {"keepdims", int64_t{1}}}, 2));
  return c.model(c.add("Sum", results));
}

std::string normModel() {
  Chain c;
  TensorId x = c.input({2, 4, 3, 3});
  x = c.add("InstanceNormalization", {x, c.weights({4}), c.weights({4})});
  x = c.add("LRN", {x}, {{"size", int64_t{3}}});
  x = c.addOwn("GroupNormalization", {x, c.weights({4}), c.weights({4})},
               {{"num_groups", int64_t{2}}, {"epsilon", 1e-5f}}, 3);
  x = c.add("LpPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, 1, 1, 0}}, {"p", int64_t{2}}});
  const TensorId means = c.add("GlobalAveragePool", {x}), most = c.add("GlobalMaxPool", {x});
  x = c.add("Sum", {means, most, c.add("GlobalLpPool", {x})});
  x = c.add("LogSoftmax", {c.add("Flatten", {x})}, {{"axis", int64_t{1}}});
  return c.model(c.add("Mul", {c.add("Hardmax", {x}), c.add("Dropout", {x})}));
}

// Everything that moves or picks elements.
std::string moveModel() {
  Chain c;
  TensorId x = c.input({1, 4, 2, 4});
  x = c.add("DepthToSpace", {x}, {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}});
  x = c.add("SpaceToDepth", {x}, {{"blocksize", int64_t{2}}});
  x = c.add("Squeeze", {c.add("Reshape", {x, c.constant({1, 8, -1})}), c.constant({0})});
  const TensorId picked =
      c.add("GatherElements", {x, c.add("Reshape", {c.constant({0, 1, -1, 2}), c.constant({1, 4})})});
  const TensorId nd = c.add("GatherND", {x, c.add("Reshape", {c.constant({0, 1, 7, 3}), c.constant({2, 2})})});
  const TensorId index = c.add("Reshape", {c.constant({0, 3, 2, 1}), c.constant({1, 4})});
  x = c.add("ScatterElements", {x, index, picked}, {{"axis", int64_t{1}}, {"reduction", std::string("add")}});
  x = c.add("Add", {x, c.add("ReduceSum", {nd})});
  const TensorId range = c.add("Range", {c.cast(c.add("Squeeze", {c.constant({0})}), DataType::FLOAT),
                                         c.cast(c.add("Squeeze", {c.constant({4})}), DataType::FLOAT),
                                         c.cast(c.add("Squeeze", {c.constant({1})}), DataType::FLOAT)});
  const TensorId hot = c.add(
      "OneHot", {c.constant({1, 0, -1}), c.constant({4}), c.add("Slice", {range, c.constant({0}), c.constant({2})})});
  x = c.add("MatMul", {hot, c.add("Transpose", {c.add("Add", {x, range})})});
  x = c.addOwn("Subsample", {x}, {{"strides", Ints{1, 2}}});
  x = c.addOwn("Reverse", {x}, {{"dimensions", Ints{0}}});
  const TensorId at = c.cast(c.constant({1}), DataType::UINT32);
  const TensorId slice = c.addOwn("DynamicSlice", {x, at}, {{"axes", Ints{1}}, {"sizes", Ints{2}}});
  x = c.addOwn("DynamicUpdate", {x, at, slice}, {{"axes", Ints{1}}, {"sizes", Ints{2}}});
  return c.model(c.add("Trilu", {x, c.add("Squeeze", {c.constant({1})})}));
}

std::string lossModel() {
  Chain c;
  const TensorId x = c.add("MatMul", {c.input({4, 6}), c.weights({6, 3})});
  const TensorId labels = c.constant({0, 2, 1, 2});
  const TensorId log = c.add("LogSoftmax", {x});
  const TensorId a =
      c.add("SoftmaxCrossEntropyLoss", {x, labels, c.weights({3})}, {{"reduction", std::string("mean")}});
  const TensorId b = c.add("NegativeLogLikelihoodLoss", {log, labels}, {{"ignore_index", int64_t{1}}});
  const TensorId d =
      c.addOwn("Nll", {c.add("Softmax", {x}), c.cast(labels, DataType::INT32)}, {{"reduction", int64_t{0}}});
  const TensorId e = c.addOwn("L1", {x}, {{"lambda", 0.25f}, {"reduction", int64_t{1}}});
  return c.model(c.addOwn("IdentityLoss", {c.add("Sum", {a, b, d, e})}, {{"reduction", int64_t{1}}}));
}

// Random numbers and the narrow and wide floating types.
std::string typesModel() {
  Chain c;
  const TensorId x = c.input({3, 8});
  const TensorId noise = c.add("RandomNormalLike", {x}, {{"scale", 0.1f}});
  const TensorId uniform = c.add("RandomUniform", {}, {{"shape", Ints{3, 8}}, {"low", 0.25f}});
  const TensorId coin = c.add("Bernoulli", {uniform});
  const TensorId half = c.cast(c.add("Add", {x, noise}), DataType::FLOAT16);
  const TensorId dense = c.add("MatMul", {half, c.cast(c.weights({8, 4}), DataType::FLOAT16)});
  const TensorId brain = c.add("Relu", {c.cast(c.add("Softmax", {dense}), DataType::BFLOAT16)});
  const TensorId wide = c.add("Exp", {c.cast(brain, DataType::DOUBLE)});
  return c.model(c.add("Concat", {c.cast(wide, DataType::FLOAT), coin}, {{"axis", int64_t{-1}}}));
}

// Element types of at most eight bits: packed weights, casts, quantised values by block, moves, seeds.
std::string smallTypesModel() {
  Chain c;
  c.opset = 25;
  TensorId x = c.input({2, 6});
  const auto wide = [&](const TensorId &small) { return c.cast(small, DataType::FLOAT); };
  for (DataType type : {DataType::INT4, DataType::UINT2, DataType::FLOAT4E2M1, DataType::FLOAT6E3M2,
                        DataType::FLOAT8E4M3FN, DataType::FLOAT8E5M2, DataType::FLOAT8E8M0}) {
    const std::vector<double> values = {1, 0.5, 1, 2, 1};
    const TensorId w = c.add("Constant", {}, {{"value", TensorData::fromDoubles(TensorInfo(type, {5}), values)}});
    const TensorId part =
        c.add("Slice", {c.add("Concat", {w, w}, {{"axis", int64_t{0}}}), c.constant({1}), c.constant({7})});
    x = c.add("Add", {x, wide(part)});
  }
  const TensorId scale = c.add("Constant", {},
                               {{"value", TensorData::fromDoubles(TensorInfo(DataType::FLOAT, {2, 3}),
                                                                  std::vector<double>{1, 2, 0.5, 1, 1, 4})}});
  const BuilderAttributes blocks = {{"axis", int64_t{1}}, {"block_size", int64_t{2}}};
  for (DataType type : {DataType::INT4, DataType::FLOAT8E5M2}) {
    BuilderAttributes quantise = blocks;
    quantise.emplace_back("output_dtype", int64_t{toOnnxDataType(type)});
    const TensorId q = c.add("Transpose", {c.add("QuantizeLinear", {x, scale}, quantise)});
    x = c.add("DequantizeLinear", {c.add("Transpose", {q}), scale}, blocks);
  }
  return c.model(c.add("Add", {x, c.add("RandomUniformLike", {x}, {{"seed", 3.0f}})}));
}

AttributeProto *graphAttribute(onnx_proto::NodeProto *node, const std::string &name) {
  auto *attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::GRAPH);
  return attribute;
}

// Two packed tensors through a subgraph, and a program that may stop itself.
std::string packedModel() {
  Chain c;
  const TensorId x = c.input({7, 3}), rows = c.cast(x, DataType::INT32);
  ModelBuilder &callback = c.b.createSubgraphBuilder();
  const TensorId left = callback.addInputTensor(TensorInfo(DataType::FLOAT, {2, 4, 3}));
  const TensorId right = callback.addInputTensor(TensorInfo(DataType::INT32, {2, 3, 3}));
  const BuilderAttributes to = {{"to", int64_t{toOnnxDataType(DataType::FLOAT)}}};
  const TensorId shorter = callback.addNode("ai.onnx", c.opset, "Cast", {right}, 1, to).front();
  const BuilderAttributes axis = {{"axis", int64_t{1}}};
  callback.addOutputTensor(callback.addNode("ai.onnx", c.opset, "Concat", {left, shorter}, 1, axis).front());
  const auto list = [&](const Ints &values) { return c.cast(c.constant(values), DataType::UINT32); };
  const std::vector<TensorId> args = {
      x, list({0, 4, 5}), list({4, 1, 2}), rows, list({1, 0, 4}), list({3, 0, 1}), list({0, 5, 2}), list({3, 2, 3})};
  const BuilderAttributes attributes = {{"maxSequenceLengths", Ints{4, 3}},
                                        {"resultSize", int64_t{9}},
                                        {"callbackBatchSize", int64_t{2}},
                                        {"callback", &callback}};
  const TensorId y = c.addOwn("PackedDataBlock", args, attributes);
  const TensorId most = c.add("ReduceMax", {y}, {{"keepdims", int64_t{0}}});
  c.b.addNode("ai.graphcore", 1, "Abort", {c.cast(c.add("IsNaN", {most}), DataType::INT32)}, 0);
  return c.model(y);
}

// A function of x and w, its derivative, and the derivative of that by one of them.
std::string gradientModel() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto *preview = model.add_opset_import();
  preview->set_domain("ai.onnx.preview.training");
  preview->set_version(1);
  GraphProto *graph = model.mutable_graph();
  describe(graph->add_input(), "x", 1, {2, 3});
  describe(graph->add_input(), "w", 1, {3, 2});
  addNode(graph, "MatMul", {"x", "w"}, {"p"});
  addNode(graph, "Softmax", {"p"}, {"s"});
  addNode(graph, "Mul", {"s", "p"}, {"y"});
  const auto derive = [&](const char *of, const std::vector<std::string> &by, const std::vector<std::string> &given,
                          const std::vector<std::string> &results) {
    auto *node = addNode(graph, "Gradient", {"x", "w"}, results);
    node->set_domain("ai.onnx.preview.training");
    const std::pair<const char *, std::vector<std::string>> lists[] = {{"xs", by}, {"zs", given}};
    for (const auto &[name, values] : lists) {
      auto *list = node->add_attribute();
      list->set_name(name);
      list->set_type(AttributeProto::STRINGS);
      for (const std::string &value : values) list->add_strings(value);
    }
    auto *y = node->add_attribute();
    y->set_name("y");
    y->set_type(AttributeProto::STRING);
    y->set_s(of);
  };
  derive("y", {"x", "w"}, {}, {"dx", "dw"});
  addNode(graph, "Sin", {"dx"}, {"z"});
  derive("z", {"x"}, {"w"}, {"d2x"});
  for (const char *name : {"y", "dw", "d2x"}) graph->add_output()->set_name(name);
  return model.SerializeAsString();
}

// Branches within branches; the innermost reads a tensor of the outermost graph.
std::string nestedModel() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  GraphProto *graph = model.mutable_graph();
  describe(graph->add_input(), "x", 1, {2, 2});
  describe(graph->add_input(), "choose", 9, {});
  constexpr int kDepth = 5;
  GraphProto *inner = graph;
  for (int depth = 0; depth < kDepth; ++depth) {
    const std::string level = std::to_string(depth);
    auto *branch = addNode(inner, "If", {"choose"}, {"y" + level});
    inner->add_output()->set_name("y" + level);
    GraphProto *otherwise = graphAttribute(branch, "else_branch")->mutable_g();
    addNode(otherwise, "Neg", {"x"}, {"n" + level});
    otherwise->add_output()->set_name("n" + level);
    inner = graphAttribute(branch, "then_branch")->mutable_g();
  }
  addNode(inner, "Relu", {"x"}, {"innermost"});
  inner->add_output()->set_name("innermost");
  return model.SerializeAsString();
}

// Two weights in a file next to the model.
std::string externalModel() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  GraphProto *graph = model.mutable_graph();
  describe(graph->add_input(), "x", 1, {2, 4});
  int64_t offset = 0;
  for (const char *name : {"w", "v"}) {
    auto *weight = graph->add_initializer();
    weight->set_name(name);
    weight->set_data_type(1);
    weight->add_dims(4);
    weight->add_dims(4);
    weight->set_data_location(onnx_proto::TensorProto::EXTERNAL);
    const std::pair<const char *, std::string> entries[] = {
        {"location", kExternalFile}, {"offset", std::to_string(offset)}, {"length", "64"}};
    for (const auto &[key, value] : entries) {
      auto *entry = weight->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    offset += 64;
  }
  addNode(graph, "MatMul", {"x", "w"}, {"h"});
  addNode(graph, "MatMul", {"h", "v"}, {"y"});
  graph->add_output()->set_name("y");
  return model.SerializeAsString();
}

}  // namespace

std::string externalFileContent() {
  std::string bytes;
  for (int i = 0; i < 32; ++i) {
    const float value = static_cast<float>(i % 5) * 0.5f - 1.0f;
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  return bytes;
}

std::vector<SmallModel> smallModels() {
  std::vector<SmallModel> models = operatorModels();
  const std::vector<SmallModel> families = {{"image", imageModel()},
                                            {"index", indexModel()},
                                            {"shape", shapeModel()},
                                            {"control", controlModel()},
                                            {"elementwise", elementwiseModel()},
                                            {"logic", logicModel()},
                                            {"reduce", reduceModel()},
                                            {"norm", normModel()},
                                            {"move", moveModel()},
                                            {"loss", lossModel()},
                                            {"types", typesModel()},
                                            {"small types", smallTypesModel()},
                                            {"packed", packedModel()},
                                            {"gradient", gradientModel()},
                                            {"nested", nestedModel()},
                                            {"external", externalModel()}};
  models.insert(models.end(), families.begin(), families.end());
  return models;
}

}  // namespace popart::fuzz
