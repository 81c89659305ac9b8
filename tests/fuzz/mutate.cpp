// Damage is done to parsed messages where that reaches deeper, and to raw bytes otherwise. Mutations must be able to
// meet: an unknown operator with cut-off attributes, or a cycle through a huge dimension, are models too.
#include "mutate.hpp"

#include <cmath>
#include <map>

#include <popart/opdef.hpp>

#include "models.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::fuzz {
namespace {

using onnx_proto::AttributeProto;
using onnx_proto::GraphProto;
using onnx_proto::ModelProto;
using onnx_proto::NodeProto;
using onnx_proto::TensorProto;

template <class List>
auto *anyOf(List *list, Random &random) {
  return list->size() == 0 ? nullptr : list->Mutable(static_cast<int>(below(random, list->size())));
}

constexpr int64_t kOddNumbers[] = {0,
                                   1,
                                   -1,
                                   2,
                                   -2,
                                   3,
                                   7,
                                   63,
                                   64,
                                   255,
                                   65536,
                                   -65536,
                                   int64_t{1} << 31,
                                   -(int64_t{1} << 31),
                                   int64_t{1} << 40,
                                   int64_t{1} << 62,
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
    list->Set(static_cast<int>(below(random, list->size())),
              below(random, 2) ? oddNumber(random) : below(random, 9) - 4);
  else if (list->size() > 0 && below(random, 2))
    list->RemoveLast();
  else
    list->Add(oddNumber(random));
}

// One value of a payload becomes an odd number: steers shapes, axes, indices.
void damageValue(TensorProto *tensor, Random &random) {
  static const std::map<int, size_t> kBytes = {{1, 4}, {2, 1},  {3, 1},  {6, 4}, {7, 8},
                                               {9, 1}, {10, 2}, {11, 8}, {12, 4}};
  const auto bytes = kBytes.find(tensor->data_type());
  std::string &raw = *tensor->mutable_raw_data();
  if (bytes == kBytes.end() || raw.size() < bytes->second) return damageNumber(tensor->mutable_int64_data(), random);
  const int64_t number = below(random, 2) ? oddNumber(random) : below(random, 9) - 4;
  const auto single = static_cast<float>(number);
  const bool isFloat = tensor->data_type() == TensorProto::FLOAT;
  const size_t at =
      static_cast<size_t>(below(random, static_cast<int64_t>(raw.size() / bytes->second))) * bytes->second;
  raw.replace(at, bytes->second,
              std::string(isFloat ? reinterpret_cast<const char *>(&single) : reinterpret_cast<const char *>(&number),
                          bytes->second));
}

// Other dimensions for the same number of elements.
void rearrangeDims(TensorProto *tensor, Random &random) {
  auto *dims = tensor->mutable_dims();
  const int count = dims->size();
  if (count > 1 && below(random, 2)) return dims->SwapElements(0, count - 1);
  if (count > 0 && dims->Get(count - 1) == 1) return dims->RemoveLast();
  dims->Add(1);
}

void damageTensor(TensorProto *tensor, Random &random) {
  switch (below(random, 10)) {
    case 0:
      return damageNumber(tensor->mutable_dims(), random);
    case 1:
      return tensor->set_data_type(static_cast<int>(below(random, 28)));
    case 2:
      return tensor->mutable_raw_data()->resize(static_cast<size_t>(below(random, 20)));
    case 3:
      return tensor->set_name(below(random, 2) ? "x" : "");
    case 4:
    case 5:
      return rearrangeDims(tensor, random);
    default:
      return damageValue(tensor, random);
  }
}

// A name that some node reads or makes.
std::string randomName(const GraphProto &graph, Random &random) {
  if (graph.node_size() == 0) return "x";
  const auto &node = graph.node(static_cast<int>(below(random, graph.node_size())));
  if (node.output_size() > 0 && below(random, 2)) return node.output(0);
  return node.input_size() > 0 ? node.input(static_cast<int>(below(random, node.input_size()))) : "";
}

// A name that is defined before `node`, most of the time.
std::string nameFor(const GraphProto &graph, const NodeProto &node, Random &random) {
  if (below(random, 8) == 0) return randomName(graph, random);
  std::vector<std::string> names;
  for (const auto &input : graph.input()) names.push_back(input.name());
  for (const auto &tensor : graph.initializer()) names.push_back(tensor.name());
  for (const auto &earlier : graph.node()) {
    if (&earlier == &node) break;
    names.insert(names.end(), earlier.output().begin(), earlier.output().end());
  }
  return names.empty() ? "x" : names[static_cast<size_t>(below(random, static_cast<int64_t>(names.size())))];
}

void damageGraph(GraphProto *graph, Random &random);

// Locations of external data: other places, beyond the end, before the start, not a number.
void damageExternalData(TensorProto *tensor, Random &random) {
  static const char *const kPlaces[] = {
      "../secret.bin", "/etc/passwd", "/proc/self/mem", "link.bin",  "folder", "folder/../../secret.bin", "",
      "missing.bin",   ".",           "./weights.bin",  "/dev/zero", "pipe",   "weights.bin/x",           "empty.bin"};
  static const char *const kNumbers[] = {"0",
                                         "-1",
                                         "64",
                                         "128",
                                         "127",
                                         "18446744073709551615",
                                         "9223372036854775807",
                                         "1e3",
                                         "",
                                         " 64",
                                         "0x40",
                                         "99999999999999999999"};
  if (tensor->external_data_size() == 0) {
    tensor->set_data_location(TensorProto::EXTERNAL);
    auto *entry = tensor->add_external_data();
    entry->set_key("location");
    entry->set_value(kExternalFile);
    return;
  }
  auto *entry = anyOf(tensor->mutable_external_data(), random);
  switch (below(random, 4)) {
    case 0:
      entry->set_key(below(random, 2) ? "location" : "offset");
      break;
    case 1:
      tensor->mutable_external_data()->RemoveLast();
      break;
    default:
      entry->set_value(entry->key() == "location" ? kPlaces[below(random, std::size(kPlaces))]
                                                  : kNumbers[below(random, std::size(kNumbers))]);
      break;
  }
}

// An attribute that says it is of one type and holds another, or several.
void swapAttributeType(AttributeProto *attribute, Random &random) {
  attribute->set_type(static_cast<AttributeProto::AttributeType>(below(random, 15)));
  if (below(random, 2)) attribute->add_floats(static_cast<float>(oddNumber(random)));
  if (below(random, 2)) attribute->add_strings("?");
  if (below(random, 2)) attribute->clear_g();
  if (below(random, 4) == 0) attribute->mutable_t()->set_data_type(static_cast<int>(below(random, 28)));
}

void damageAttribute(AttributeProto *attribute, Random &random) {
  if (attribute->has_g() && below(random, 4)) return damageGraph(attribute->mutable_g(), random);
  if (attribute->has_t() && below(random, 4)) return damageTensor(attribute->mutable_t(), random);
  switch (below(random, 8)) {
    case 0:
      return attribute->set_i(below(random, 2) ? oddNumber(random) : below(random, 9) - 4);
    case 1:
      return damageNumber(attribute->mutable_ints(), random);
    case 2:
      return attribute->set_f(below(random, 3) ? static_cast<float>(oddNumber(random)) : std::nanf(""));
    case 3:
    case 4:
      return swapAttributeType(attribute, random);
    case 5:
      return attribute->set_name(below(random, 2) ? "axis" : "");
    case 6:
      return attribute->set_ref_attr_name("alpha");
    default:
      return attribute->set_s(below(random, 2) ? "?" : std::string(3, '\0'));
  }
}

std::string randomType(Random &random) {
  static const std::vector<const OpDef *> kRows = allOpDefs();
  const OpDef &row = *kRows[static_cast<size_t>(below(random, static_cast<int64_t>(kRows.size())))];
  return row.onnxNames().empty() ? row.type() : row.onnxNames().front().type;
}

void damageInputs(GraphProto *graph, NodeProto *node, Random &random) {
  const std::string name = nameFor(*graph, *node, random);
  if (node->input_size() == 0 || below(random, 3) == 0) return node->add_input(name);
  std::string *input = anyOf(node->mutable_input(), random);
  switch (below(random, 6)) {
    case 0:
      return node->mutable_input()->RemoveLast();
    case 1:
      return input->clear();
    case 2:
      return input->assign("nowhere"), void();
    default:
      *input = name;
  }
}

void damageNode(GraphProto *graph, NodeProto *node, Random &random) {
  switch (below(random, 10)) {
    case 0:
      return node->set_op_type(randomType(random));
    case 1:
    case 2:
      return damageInputs(graph, node, random);
    case 3:
      if (node->output_size() > 0 && below(random, 4) == 0)
        return node->set_output(0, below(random, 2) ? randomName(*graph, random) : "");
      break;
    case 4:
      node->add_output(below(random, 4) ? node->op_type() + "_more" : randomName(*graph, random));
      return;
    case 5:
      if (below(random, 3) == 0) return node->set_domain(below(random, 2) ? "ai.graphcore" : "nobody");
      return damageInputs(graph, node, random);
    case 6: {  // a cycle through this node
      if (node->output_size() == 0 || below(random, 3)) return damageInputs(graph, node, random);
      NodeProto *other = anyOf(graph->mutable_node(), random);
      other->add_input(node->output(0));
      if (other->output_size() > 0) node->add_input(other->output(0));
      return;
    }
    default:
      break;
  }
  if (AttributeProto *attribute = anyOf(node->mutable_attribute(), random)) damageAttribute(attribute, random);
}

void damageInputType(GraphProto *graph, Random &random) {
  auto *input = anyOf(graph->mutable_input(), random);
  if (!input) return;
  auto *tensor = input->mutable_type()->mutable_tensor_type();
  switch (below(random, 5)) {
    case 0:
      return tensor->set_elem_type(static_cast<int>(below(random, 28)));
    case 1:
      tensor->mutable_shape()->add_dim()->set_dim_value(oddNumber(random));
      return;
    case 2:
      if (tensor->shape().dim_size() > 0) tensor->mutable_shape()->mutable_dim(0)->set_dim_param("N");
      return;
    case 3:
      return input->set_name(randomName(*graph, random));
    default:
      if (auto *dim = anyOf(tensor->mutable_shape()->mutable_dim(), random)) dim->set_dim_value(oddNumber(random));
  }
}

// The graph becomes the branch of a branch of … of itself.
void nest(GraphProto *graph, int64_t depth) {
  for (int64_t i = 0; i < depth && graph->ByteSizeLong() < (size_t{1} << 20); ++i) {
    GraphProto inner;
    inner.Swap(graph);
    *graph->mutable_input() = inner.input();
    inner.clear_input();
    for (const auto &output : inner.output()) graph->add_output()->set_name(output.name());
    NodeProto *node = graph->add_node();
    node->set_op_type("If");
    node->add_input("choose");
    for (const auto &output : inner.output()) node->add_output(output.name());
    for (const char *name : {"then_branch", "else_branch"}) {
      if (i > 2 && name[0] == 'e') continue;
      AttributeProto *attribute = node->add_attribute();
      attribute->set_name(name);
      attribute->set_type(AttributeProto::GRAPH);
      *attribute->mutable_g() = inner;
    }
  }
}

void damageTables(GraphProto *graph, Random &random) {
  switch (below(random, 6)) {
    case 0:
      if (graph->node_size() > 1)
        graph->mutable_node()->SwapElements(0, static_cast<int>(below(random, graph->node_size())));
      return;
    case 1:
      if (graph->node_size() > 0)
        *graph->add_node() = NodeProto(graph->node(static_cast<int>(below(random, graph->node_size()))));
      return;
    case 2:
      if (graph->node_size() > 0)
        graph->mutable_node()->DeleteSubrange(static_cast<int>(below(random, graph->node_size())), 1);
      return;
    case 3:
      graph->add_output()->set_name(randomName(*graph, random));
      return;
    case 4:
      if (graph->initializer_size() > 0) *graph->add_initializer() = TensorProto(graph->initializer(0));
      return;
    default:
      return nest(graph, 1 + below(random, 100));
  }
}

void damageGraph(GraphProto *graph, Random &random) {
  const int64_t what = below(random, 12);
  if (what < 6 && graph->node_size() > 0) return damageNode(graph, anyOf(graph->mutable_node(), random), random);
  if (what < 8 && graph->initializer_size() > 0) {
    TensorProto *tensor = anyOf(graph->mutable_initializer(), random);
    const bool external = tensor->data_location() == TensorProto::EXTERNAL;
    return below(random, external ? 4 : 12) < 3 ? damageExternalData(tensor, random) : damageTensor(tensor, random);
  }
  if (what < 10) return damageInputType(graph, random);
  damageTables(graph, random);
}

// Functions that call themselves, miss what they promise, or take the place of operators.
void damageFunctions(ModelProto *model, Random &random) {
  auto *function = anyOf(model->mutable_functions(), random);
  if (!function) return damageGraph(model->mutable_graph(), random);
  switch (below(random, 5)) {
    case 0: {
      NodeProto *node = function->add_node();
      node->set_op_type(function->name());
      node->set_domain(function->domain());
      node->add_input(function->output_size() > 0 ? function->output(0) : "");
      node->add_output("again");
      return;
    }
    case 1:
      return function->add_output("nothing");
    case 2:
      return function->add_input("more");
    case 3:
      function->clear_node();
      return;
    default:
      function->set_domain("");
      function->set_name(randomType(random));
  }
}

}  // namespace

std::string damaged(const std::string &bytes, const std::string &other, Random &random) {
  std::string result = bytes;
  const int64_t times = 1 + below(random, 3);
  if (below(random, 6) == 0) {
    for (int64_t i = 0; i < times; ++i) damageBytes(result, other, random);
    return result;
  }
  ModelProto model;
  model.ParseFromString(bytes);
  for (int64_t i = 0; i < times; ++i)
    if (below(random, 10) == 0)
      damageFunctions(&model, random);
    else
      damageGraph(model.mutable_graph(), random);
  if (below(random, 20) == 0) model.mutable_opset_import(0)->set_version(oddNumber(random) % 40);
  if (below(random, 30) == 0) model.set_ir_version(oddNumber(random));
  return model.SerializeAsString();
}

}  // namespace popart::fuzz
