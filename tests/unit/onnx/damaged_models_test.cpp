// Damaged models: thousands of mutations of a few models go through the reader, the importer, lowering and, when small,
// a run. Every one must be taken or refused with popart::error; nothing may crash, hang, allocate without bound or say
// that we are wrong (internal_error). POPART_FUZZ_RUNS (default 2000) and POPART_FUZZ_SEED choose how many and which; a
// failure prints the seed and the number of the mutation, and POPART_FUZZ_KEEP=<folder> keeps its bytes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"
#include "lower/lower.hpp"
#include "onnx/builder.hpp"
#include "onnx_proto/onnx.pb.h"
#include "runtime/engine.hpp"

namespace popart::onnx {
namespace {

using onnx_proto::AttributeProto;
using onnx_proto::GraphProto;
using onnx_proto::ModelProto;
using Random = std::mt19937_64;
using Ints = std::vector<int64_t>;

int64_t below(Random &random, int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random); }

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
  TensorId add(const std::string &type, const std::vector<TensorId> &inputs, const BuilderAttributes &attributes = {},
               int outputs = 1) {
    return b.addNode("ai.onnx", 17, type, inputs, outputs, attributes).front();
  }
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
  return c.model(c.add("Split", {x}, {{"axis", int64_t{1}}}, 2));
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

// ---- mutations
// -----------------------------------------------------------------------------------------------------------

constexpr int64_t kOddNumbers[] = {0,
                                   1,
                                   -1,
                                   2,
                                   -2,
                                   7,
                                   255,
                                   65536,
                                   -65536,
                                   int64_t{1} << 31,
                                   -(int64_t{1} << 31),
                                   int64_t{1} << 40,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MAX - 1};
int64_t oddNumber(Random &random) { return kOddNumbers[below(random, std::size(kOddNumbers))]; }

void damageBytes(std::string &bytes, const std::string &other, Random &random) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < 2) return;
  const int64_t at = below(random, size), length = std::min<int64_t>(size - at, 1 + below(random, 40));
  switch (below(random, 7)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
      break;
    case 1:
      bytes[at] = static_cast<char>(below(random, 256));
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.erase(at, length);
      break;
    case 4:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 5:
      bytes.replace(at, 1, std::string(9, '\xff') + '\x01');
      break;
    default:
      bytes.replace(at, length, other.substr(below(random, static_cast<int64_t>(other.size())), length));
      break;
  }
}

template <class Field>
void damageNumber(Field *list, Random &random) {
  if (list->size() > 0 && below(random, 4))
    list->Set(static_cast<int>(below(random, list->size())), oddNumber(random));
  else if (list->size() > 0 && below(random, 2))
    list->RemoveLast();
  else
    list->Add(oddNumber(random));
}

void damageTensor(onnx_proto::TensorProto *tensor, Random &random) {
  switch (below(random, 5)) {
    case 0:
      damageNumber(tensor->mutable_dims(), random);
      break;
    case 1:
      tensor->set_data_type(static_cast<int>(below(random, 28)));
      break;
    case 2:
      damageNumber(tensor->mutable_int64_data(), random);
      break;
    case 3:
      tensor->mutable_raw_data()->resize(static_cast<size_t>(below(random, 20)));
      break;
    default:
      tensor->set_name(below(random, 2) ? "x" : "");
      break;
  }
}

std::string randomName(const GraphProto &graph, Random &random) {
  if (graph.node_size() == 0) return "x";
  const auto &node = graph.node(static_cast<int>(below(random, graph.node_size())));
  if (node.output_size() > 0 && below(random, 2)) return node.output(0);
  return node.input_size() > 0 ? node.input(static_cast<int>(below(random, node.input_size()))) : "";
}

void damageGraph(GraphProto *graph, Random &random);

void damageAttribute(AttributeProto *attribute, Random &random) {
  if (attribute->has_g() && below(random, 4)) return damageGraph(attribute->mutable_g(), random);
  if (attribute->has_t() && below(random, 4)) return damageTensor(attribute->mutable_t(), random);
  switch (below(random, 5)) {
    case 0:
      attribute->set_i(oddNumber(random));
      break;
    case 1:
      damageNumber(attribute->mutable_ints(), random);
      break;
    case 2:
      attribute->set_f(static_cast<float>(oddNumber(random)));
      break;
    case 3:
      attribute->set_type(static_cast<AttributeProto::AttributeType>(below(random, 15)));
      break;
    default:
      attribute->set_s("?");
      break;
  }
}

std::string randomType(Random &random) {
  static const std::vector<const OpDef *> kRows = allOpDefs();
  const OpDef &row = *kRows[static_cast<size_t>(below(random, static_cast<int64_t>(kRows.size())))];
  return row.onnxNames().empty() ? row.type() : row.onnxNames().front().type;
}

void damageNode(GraphProto *graph, onnx_proto::NodeProto *node, Random &random) {
  switch (below(random, 7)) {
    case 0:
      node->set_op_type(randomType(random));
      break;
    case 1:
      node->add_input(randomName(*graph, random));
      break;
    case 2:
      if (node->input_size() > 0)
        node->set_input(static_cast<int>(below(random, node->input_size())), randomName(*graph, random));
      break;
    case 3:
      if (node->input_size() > 0) node->mutable_input()->RemoveLast();
      break;
    case 4:
      if (node->output_size() > 0) node->set_output(0, below(random, 2) ? randomName(*graph, random) : "");
      break;
    case 5:
      node->add_output(node->op_type() + "_more");
      break;
    default:
      if (node->attribute_size() > 0)
        damageAttribute(node->mutable_attribute(static_cast<int>(below(random, node->attribute_size()))), random);
  }
}

void damageGraph(GraphProto *graph, Random &random) {
  const int64_t what = below(random, 10);
  if (what < 6 && graph->node_size() > 0)
    return damageNode(graph, graph->mutable_node(static_cast<int>(below(random, graph->node_size()))), random);
  if (what < 8 && graph->initializer_size() > 0)
    return damageTensor(graph->mutable_initializer(static_cast<int>(below(random, graph->initializer_size()))), random);
  if (what == 8 && graph->node_size() > 1)
    return graph->mutable_node()->SwapElements(0, static_cast<int>(below(random, graph->node_size())));
  if (graph->input_size() == 0) return;
  auto *tensor =
      graph->mutable_input(static_cast<int>(below(random, graph->input_size())))->mutable_type()->mutable_tensor_type();
  if (below(random, 3) == 0)
    tensor->set_elem_type(static_cast<int>(below(random, 28)));
  else if (tensor->shape().dim_size() > 0)
    tensor->mutable_shape()->mutable_dim(0)->set_dim_value(oddNumber(random));
}

std::string damaged(const std::string &bytes, const std::string &other, Random &random) {
  std::string result = bytes;
  const int64_t times = 1 + below(random, 3);
  if (below(random, 3) == 0) {
    for (int64_t i = 0; i < times; ++i) damageBytes(result, other, random);
    return result;
  }
  ModelProto model;
  model.ParseFromString(bytes);
  for (int64_t i = 0; i < times; ++i) damageGraph(model.mutable_graph(), random);
  if (below(random, 20) == 0) model.mutable_opset_import(0)->set_version(1 + below(random, 30));
  return model.SerializeAsString();
}

// ---- the way of a model
// ---------------------------------------------------------------------------------------------------

void addHostStreams(Graph &graph) {
  for (Tensor *stream : graph.tensorsOfType(TensorType::Stream)) {
    const std::vector<Use> uses = stream->uses();
    Op *load = graph.addConnectedOp(opDef("HostLoad"), {}, {graph.freeId(stream->id + "/loaded")},
                                    {{"stream", stream->id}}, Op::Settings(graph));
    for (const Use &use : uses) graph.replaceUse(use, load->outputs()[0]);
    graph.replaceOutputs(stream->index(), load->outputs()[0]);
  }
  int i = 0;
  for (TensorIndex output : graph.outputs())
    graph.addConnectedOp(opDef("HostStore"), {output}, {}, {{"stream", "output " + std::to_string(i++)}},
                         Op::Settings(graph));
}

struct Streams final : runtime::StreamSource {
  std::vector<TensorData> inputs, outputs;
  const void *input(int stream, int64_t) override { return inputs.at(stream).data(); }
  void *output(int stream, int64_t) override { return outputs.at(stream).mutableData(); }
};

// Work bounded for one mutation: elements of all tensors of the program.
bool isSmall(const Ir &ir) {
  constexpr int64_t kMostElements = 20'000;
  int64_t total = 0;
  for (const Graph *graph : ir.getAllGraphs()) {
    for (const Tensor *tensor : graph->tensors()) {
      if (tensor->info.nelms() > kMostElements) return false;
      total += tensor->info.nelms();
    }
    for (const Op *op : graph->ops())
      if (op->def().has(Trait::Call)) return false;
  }
  return total < 4 * kMostElements;
}

// "run", "built", "refused"; anything else is a finding.
std::string outcome(const std::string &bytes) {
  try {
    BuildOptions options;
    options.evaluate = ref::evaluate;
    Ir ir;
    buildGraph(Model::parse(bytes, "/nonexistent"), options, ir);
    if (!isSmall(ir)) return "built";
    addHostStreams(ir.getMainGraph());
    lower::LowerOptions lowering;
    lowering.backends = {&ref::backend()};
    lowering.maxMemoryBytes = int64_t{16} << 20;
    const auto executable = lower::lower(ir, lowering);
    runtime::Engine engine(executable, 1);
    Streams streams;
    for (const auto &input : executable->inputs) streams.inputs.emplace_back(input.info);
    for (const auto &output : executable->outputs) streams.outputs.emplace_back(output.info);
    engine.run(streams);
    return "run";
  } catch (const internal_error &e) {
    return std::string("internal_error: ") + e.what();
  } catch (const error &) {
    return "refused";
  } catch (const std::exception &e) {
    return std::string("std::exception: ") + e.what();
  }
}

int64_t setting(const char *name, int64_t fallback) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : fallback;
}

TEST(DamagedModels, are_taken_or_refused_with_a_reason) {
  const std::vector<std::string> models = {imageModel(), indexModel(), shapeModel(), controlModel()};
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string undamaged = outcome(models[i]);
    EXPECT_TRUE(undamaged == "run" || undamaged == "built") << "model " << i << ": " << undamaged;
  }
  const int64_t runs = setting("POPART_FUZZ_RUNS", 2000), seed = setting("POPART_FUZZ_SEED", 1);
  std::map<std::string, int64_t> counts;
  for (int64_t i = 0; i < runs; ++i) {
    Random random(static_cast<uint64_t>(seed * 1'000'003 + i));
    const size_t which = static_cast<size_t>(below(random, static_cast<int64_t>(models.size())));
    const std::string bytes =
        damaged(models[which], models[static_cast<size_t>(below(random, static_cast<int64_t>(models.size())))], random);
    if (const char *folder = std::getenv("POPART_FUZZ_KEEP"))
      std::ofstream(std::string(folder) + "/last.onnx", std::ios::binary) << bytes;
    const std::string result = outcome(bytes);
    ++counts[result];
    const bool fine = result == "run" || result == "built" || result == "refused";
    EXPECT_TRUE(fine) << "POPART_FUZZ_SEED=" << seed << ", mutation " << i << " of model " << which << ": " << result;
  }
  // The mutations must reach every depth, or they test nothing.
  for (const char *depth : {"run", "refused"}) EXPECT_GT(counts[depth], runs / 50) << depth;
}

}  // namespace
}  // namespace popart::onnx
