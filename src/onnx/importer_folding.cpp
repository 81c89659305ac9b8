// Which ops on constants the importer leaves in the graph, and which it folds nevertheless.
#include <algorithm>
#include <set>

#include "onnx/importer.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

template <class Nodes>
void countNames(const Nodes &nodes, std::unordered_map<std::string, int> &readers) {
  for (const auto &node : nodes) {
    const std::set<std::string> names(node.input().begin(), node.input().end());
    for (const std::string &name : names) ++readers[name];
    for (const auto &a : node.attribute())
      if (a.has_g()) countNames(a.g().node(), readers);
  }
}

}  // namespace

void Importer::countReaders(const onnx_proto::GraphProto &graph, Scope &scope) {
  countNames(graph.node(), scope.readers);
}
void Importer::countReaders(const onnx_proto::FunctionProto &function, Scope &scope) {
  countNames(function.node(), scope.readers);
}

void Importer::foldWhatLeadsTo(Graph &graph, TensorIndex t) const {
  if (options_.foldsShared) return;  // nothing was left
  std::set<uint32_t> needed;
  std::vector<TensorIndex> open{t};
  while (!open.empty()) {
    const Tensor &tensor = graph.tensor(open.back());
    open.pop_back();
    if (tensor.tensorType() == TensorType::Const) continue;
    if (!tensor.hasProducer()) return;
    if (!needed.insert(tensor.producerIndex().value).second) continue;
    for (TensorIndex in : tensor.getProducer()->inputs())
      if (in.valid()) open.push_back(in);
  }
  for (uint32_t op : needed)  // in the order in which they were made
    if (!foldOp(graph.op(OpIndex{op}), options_.evaluate, budget_, FoldSize::Required)) return;
}

// Whether the node reads a constant that another node also reads.
bool Importer::readsShared(const onnx_proto::NodeProto &node, const Scope &scope) const {
  constexpr std::string_view kAlwaysFolded[] = {"Constant", "ConstantOfShape", "Shape"};
  if (std::ranges::find(kAlwaysFolded, node.op_type()) != std::end(kAlwaysFolded)) return false;
  return std::ranges::any_of(node.input(), [&](const std::string &name) {
    const Scope *home = &scope;
    while (home && !home->tensors.contains(name)) home = home->outer;
    if (!home) return false;
    const TensorIndex t = home->tensors.at(name);
    if (!t.valid() || home->graph->tensor(t).tensorType() != TensorType::Const) return false;
    for (const Scope *s = &scope; s; s = s->outer)
      if (const auto readers = s->readers.find(name); readers != s->readers.end() && readers->second > 1) return true;
    return false;
  });
}

bool Importer::isDifferentiated(const Graph &graph, const std::vector<TensorIndex> &tensors) const {
  return std::ranges::any_of(
      tensors, [&](TensorIndex t) { return t.valid() && options_.differentiated.count(graph.tensor(t).id) != 0; });
}

}  // namespace popart::onnx
