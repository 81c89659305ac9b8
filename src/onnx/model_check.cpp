// Checks of ONNX messages that do not depend on operators. Names read inside subgraphs count as inputs of the node that
// contains the subgraph, so order and cycles are found across nesting.
#include "onnx/model_check.hpp"

#include <algorithm>
#include <map>
#include <queue>

#include <popart/error.hpp>

#include "base/nearest.hpp"
#include "onnx/file_bytes.hpp"
#include "onnx/reader.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>;

void collectFreeNames(const onnx_proto::GraphProto &graph, std::set<std::string> &free) {
  const std::set<std::string> own = definedNames(graph);
  auto read = [&](const std::string &name) {
    if (!name.empty() && !own.count(name)) free.insert(name);
  };
  for (const auto &node : graph.node()) {
    for (const auto &input : node.input()) read(input);
    for (const auto &name : namesReadBySubgraphs(node)) read(name);
  }
  for (const auto &output : graph.output()) read(output.name());
}

bool isDefinedOutside(const std::string &name, const OuterNames &outer) {
  return std::any_of(outer.begin(), outer.end(), [&](const auto *names) { return names->count(name) != 0; });
}

std::map<std::string, int> producersOf(const Nodes &nodes, const std::set<std::string> &given,
                                       const std::string &where) {
  std::map<std::string, int> producer;
  for (int i = 0; i < nodes.size(); ++i)
    for (const auto &output : nodes[i].output()) {
      if (output.empty()) continue;
      check(!given.count(output) && producer.emplace(output, i).second,
            "{}: tensor '{}' is defined twice: got a second definition by {}. Give every tensor its own name", where,
            output, nodeText(nodes[i]));
    }
  return producer;
}

std::vector<int> sortNodes(const Nodes &nodes, const std::set<std::string> &given, const OuterNames &outer,
                           const std::string &where) {
  const std::map<std::string, int> producer = producersOf(nodes, given, where);
  std::vector<std::vector<int>> successors(nodes.size());
  std::vector<int> waiting(nodes.size(), 0);
  for (int i = 0; i < nodes.size(); ++i) {
    std::set<std::string> reads = namesReadBySubgraphs(nodes[i]);
    for (const auto &input : nodes[i].input())
      if (!input.empty()) reads.insert(input);
    for (const auto &name : reads) {
      auto found = producer.find(name);
      if (found != producer.end()) {
        successors[found->second].push_back(i);
        ++waiting[i];
        continue;
      }
      if (given.count(name) || isDefinedOutside(name, outer)) continue;
      std::vector<std::string> names(given.begin(), given.end());
      for (const auto &entry : producer) names.push_back(entry.first);
      throw error(
          "{}: {} reads tensor '{}' that nothing defines. Add it as an input, an initializer or a node output{}", where,
          nodeText(nodes[i]), name, nearestText(name, names));
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i)
    if (waiting[i] == 0) ready.push(i);
  std::vector<int> order;
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    order.push_back(node);
    for (int next : successors[node])
      if (--waiting[next] == 0) ready.push(next);
  }
  if (static_cast<int>(order.size()) != nodes.size())
    for (int i = 0; i < nodes.size(); ++i)
      if (waiting[i] > 0)
        throw error("{}: the nodes form a cycle through {}. An ONNX graph must be acyclic; use Loop", where,
                    nodeText(nodes[i]));
  return order;
}

std::set<std::string> givenNames(const onnx_proto::GraphProto &graph) {
  std::set<std::string> names = initializerNames(graph);
  for (const auto &input : graph.input()) names.insert(input.name());
  return names;
}

std::string whereText(const onnx_proto::GraphProto &graph) { return "Graph '" + graph.name() + "'"; }

template <class List, class NameOf>
void checkUnique(const List &list, NameOf nameOf, const std::string &where, const std::string &what) {
  std::set<std::string> seen;
  for (const auto &item : list) {
    const std::string &name = nameOf(item);
    check(!name.empty(), "{}: an {} has no name. Name every {}", where, what, what);
    check(seen.insert(name).second, "{}: two {}s are called '{}'. Give each its own name", where, what, name);
  }
}

void checkGraph(const onnx_proto::GraphProto &graph, OuterNames outer, const ModelContent &content);

void checkNode(const onnx_proto::NodeProto &node, const OuterNames &outer, const ModelContent &content) {
  constexpr size_t kLongestType = 512;
  check(!node.op_type().empty() && node.op_type().size() <= kLongestType,
        "{}: has no legal operator type: got {} characters", nodeText(node).substr(0, kLongestType),
        static_cast<long>(node.op_type().size()));
  checkUnique(
      node.attribute(), [](const auto &a) -> const std::string & { return a.name(); }, nodeText(node), "attribute");
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g()) checkGraph(attribute.g(), outer, content);
    for (const auto &graph : attribute.graphs()) checkGraph(graph, outer, content);
  }
}

void checkGraph(const onnx_proto::GraphProto &graph, OuterNames outer, const ModelContent &content) {
  const std::string where = whereText(graph);
  checkUnique(
      graph.input(), [](const auto &v) -> const std::string & { return v.name(); }, where, "input");
  for (const auto &output : graph.output())  // a tensor may be several outputs
    check(!output.name().empty(), "{}: an output has no name. Name every output", where);
  checkUnique(
      graph.initializer(), [](const auto &v) -> const std::string & { return v.name(); }, where, "initializer");
  for (const auto &tensor : graph.initializer()) {
    if (holdsText(tensor)) continue;
    const TensorInfo info = tensorInfo(tensor, tensor.name());
    if (isExternal(tensor)) continue;
    const auto payload = content.payloads.find(&tensor);
    const int64_t bytes = payload != content.payloads.end() ? payload->second.bytes.nbytes()
                                                            : static_cast<int64_t>(tensor.raw_data().size());
    check(bytes == 0 || bytes == fileBytes(info),
          "Tensor '{}': raw data does not match its dimensions: got {} bytes, expected {} for {}", tensor.name(), bytes,
          fileBytes(info), info);
  }
  nodeOrder(graph, outer);
  const std::set<std::string> names = definedNames(graph);
  for (const auto &output : graph.output())
    check(names.count(output.name()) || isDefinedOutside(output.name(), outer),
          "{}: output '{}' is defined by no node, input or initializer", where, output.name());
  outer.push_back(&names);
  for (const auto &node : graph.node()) checkNode(node, outer, content);
}

}  // namespace

std::string nodeText(const onnx_proto::NodeProto &node) {
  if (!node.name().empty()) return node.op_type() + " '" + node.name() + "'";
  for (const auto &output : node.output())
    if (!output.empty()) return node.op_type() + " (output '" + output + "')";
  return node.op_type() + " ''";
}

bool holdsText(const onnx_proto::TensorProto &initializer) {
  return initializer.data_type() == onnx_proto::TensorProto::STRING;
}

std::set<std::string> initializerNames(const onnx_proto::GraphProto &graph) {
  std::set<std::string> names;
  for (const auto &tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto &tensor : graph.sparse_initializer()) names.insert(tensor.values().name());
  return names;
}

std::set<std::string> definedNames(const onnx_proto::GraphProto &graph) {
  std::set<std::string> names = givenNames(graph);
  for (const auto &node : graph.node())
    for (const auto &output : node.output())
      if (!output.empty()) names.insert(output);
  return names;
}

std::set<std::string> namesReadBySubgraphs(const onnx_proto::NodeProto &node) {
  std::set<std::string> names;
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g()) collectFreeNames(attribute.g(), names);
    for (const auto &graph : attribute.graphs()) collectFreeNames(graph, names);
  }
  return names;
}

std::vector<int> nodeOrder(const onnx_proto::GraphProto &graph, const OuterNames &outer) {
  return sortNodes(graph.node(), givenNames(graph), outer, whereText(graph));
}

std::vector<int> nodeOrder(const onnx_proto::FunctionProto &function) {
  const std::set<std::string> given(function.input().begin(), function.input().end());
  return sortNodes(function.node(), given, {}, "Function '" + function.domain() + "." + function.name() + "'");
}

void checkModel(const ModelContent &content) {
  const auto &proto = *content.proto;
  check(proto.has_graph(), "Model '{}': holds no graph. Give an ONNX model", content.name);
  check(proto.ir_version() >= 3,
        "Model '{}': IR version is too old: got {}, expected 3 or newer. Convert it with onnx.version_converter",
        content.name, static_cast<long>(proto.ir_version()));
  check(proto.ir_version() <= onnx_proto::IR_VERSION,
        "Model '{}': there is no such IR version: got {}, expected 3 to {}. Save the model again with a released onnx",
        content.name, static_cast<long>(proto.ir_version()), static_cast<int>(onnx_proto::IR_VERSION));
  check(proto.opset_import_size() > 0, "Model '{}': imports no operator set. Add opset_import entries", content.name);
  std::map<std::string, int64_t> versions;
  for (const auto &import : proto.opset_import()) {
    const std::string domain = import.domain().empty() ? "ai.onnx" : import.domain();
    check(import.version() >= 1, "Model '{}': version of operator set '{}' is not positive: got {}", content.name,
          domain, static_cast<long>(import.version()));
    const auto [entry, isNew] = versions.emplace(domain, import.version());
    check(isNew || entry->second == import.version(),
          "Model '{}': operator set '{}' is imported in two versions: got {} and {}, expected one. Remove one of the "
          "entries of opset_import",
          content.name, domain, entry->second, static_cast<long>(import.version()));
  }
  std::set<std::string> functions;
  for (const auto &function : proto.functions()) {
    const std::string key = function.domain() + "." + function.name() + ":" + function.overload();
    check(functions.insert(key).second, "Model '{}': function '{}' is defined twice", content.name, key);
    nodeOrder(function);
    for (const auto &node : function.node()) checkNode(node, {}, content);
  }
  checkGraph(proto.graph(), {}, content);
}

}  // namespace popart::onnx
