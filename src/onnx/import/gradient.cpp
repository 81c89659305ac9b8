// Gradient of ai.onnx.preview.training: the nodes between tensors of its graph and another tensor become a separate
// graph, which is called with the node's values and differentiated. Gradients may be nested.
#include <algorithm>
#include <set>

#include <popart/error.hpp>

#include "autodiff/autodiff.hpp"
#include "onnx/compose.hpp"
#include "onnx/model_check.hpp"
#include "onnx_proto/onnx.pb.h"
#include "ops/random/seed.hpp"

namespace popart::onnx {
namespace {

using Names = std::vector<std::string>;
using Nodes = google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>;

const Nodes &nodesAround(const NodeContext &n) {
  const Scope &scope = n.scope();
  if (scope.source) return scope.source->node();
  n.require(scope.function != nullptr, "there is no graph to differentiate: add the node to one");
  return scope.function->node();
}

// The number of the node that computes a tensor.
NodeNumbers makersOf(const Nodes &nodes) {
  NodeNumbers producers;
  for (int i = 0; i < nodes.size(); ++i)
    for (const auto &output : nodes[i].output())
      if (!output.empty()) producers.emplace(output, i);
  return producers;
}

// The nodes that compute `last` from the tensors `first`, each after the nodes that it reads.
class NodesBetween {
 public:
  NodesBetween(const Nodes &nodes, const NodeNumbers &producers, const Names &first)
      : nodes_(nodes), producers_(producers), first_(first.begin(), first.end()) {}

  std::vector<const onnx_proto::NodeProto *> find(const std::string &last) {
    open(last);
    while (!open_.empty()) {
      Open &top = open_.back();
      if (top.next < top.reads.size()) {
        open(std::string(top.reads[top.next++]));
        continue;
      }
      found_.push_back(&nodes_[top.node]);
      open_.pop_back();
    }
    return found_;
  }

 private:
  struct Open {
    int node;
    Names reads;
    size_t next = 0;
  };

  void open(const std::string &name) {
    const auto producer = producers_.find(name);
    if (first_.contains(name) || producer == producers_.end() || !seen_.insert(producer->second).second) return;
    const onnx_proto::NodeProto &node = nodes_[producer->second];
    std::set<std::string> reads = namesReadBySubgraphs(node);
    reads.insert(node.input().begin(), node.input().end());
    open_.push_back({producer->second, Names(reads.begin(), reads.end())});
  }

  const Nodes &nodes_;
  const NodeNumbers &producers_;
  std::set<std::string> first_;
  std::set<int> seen_;
  std::vector<Open> open_;
  std::vector<const onnx_proto::NodeProto *> found_;
};

class GradientNode {
 public:
  explicit GradientNode(NodeContext &n)
      : n_(n), xs_(n.attr<Names>("xs", {})), names_(xs_), y_(n.attr<std::string>("y", "")) {
    const auto zs = n.attr<Names>("zs", {});
    names_.insert(names_.end(), zs.begin(), zs.end());
    n.require(!xs_.empty() && !y_.empty(), "attributes xs and y must name tensors: got {} and '{}'", xs_, y_);
    n.require(std::set<std::string>(names_.begin(), names_.end()).size() == names_.size(),
              "xs and zs must name different tensors: got {}", names_);
    n.require(n.inputCount() == static_cast<int>(names_.size()),
              "needs a value for each tensor of xs and zs: got {} inputs, expected {}", n.inputCount(),
              static_cast<int64_t>(names_.size()));
    n.require(n.outputCount() <= static_cast<int>(xs_.size()), "has more outputs than xs has names: got {} and {}",
              n.outputCount(), xs_);
    for (size_t i = 0; i < xs_.size(); ++i) requireFloat(n.info(static_cast<int>(i)), xs_[i]);
  }

  void import() {
    const Nodes &nodes = nodesAround(n_);
    Scope &around = n_.scope();
    if (!around.producers) around.producers = std::make_shared<const NodeNumbers>(makersOf(nodes));
    n_.require(around.producers->contains(y_) || std::ranges::find(names_, y_) != names_.end(),
               "attribute y: no node of the graph makes tensor '{}'", y_);
    Scope scope = bodyScope(n_);
    scope.source = around.source;
    scope.producers = around.producers;
    std::vector<TensorInfo> infos;
    for (int i = 0; i < n_.inputCount(); ++i) infos.push_back(n_.info(i));
    Graph &graph =
        n_.importer().importPart(NodesBetween(nodes, *around.producers, names_).find(y_), names_, infos,
                                 (n_.settings().name.empty() ? n_.type() : n_.settings().name) + "/part", scope);
    differentiate(graph, n_.importer().resolve(y_, scope));
    std::vector<TensorIndex> inputs = n_.inputs();
    for (const Scope::Capture &capture : scope.captures) inputs.push_back(capture.outer);
    n_.results("Call", inputs, {{"callee", GraphRef{graph.id}}});
  }

 private:
  void requireFloat(const TensorInfo &info, const std::string &name) const {
    n_.require(isFloatingPoint(info.dataType()), "only floating-point tensors have gradients: got {} for '{}'", info,
               name);
  }

  // Random ops of `graph`, and of the graphs that it calls, get separate seeds. Their gradients read these seeds too,
  // and so repeat the numbers. The gradient of a branch recomputes the branch with the same seed.
  void giveSeeds(Graph &graph) {
    if (!seeded_.insert(graph.id).second) return;
    for (Op *op : graph.ops()) {
      for (Graph *called : op->getCalledGraphs()) giveSeeds(*called);
      for (InIndex i = 0; i < op->inputCount(); ++i)
        if (op->hasInput(i) && (op->is(Role::If) || ops::seedInput(*op) == i) &&
            ops::isRandomSeed(graph.removeScope(op->inId(i))))
          giveSeed(graph, *op, i);
    }
  }

  void giveSeed(Graph &graph, Op &op, InIndex input) {
    const auto freshId = [&](const char *name) { return n_.importer().freshId(graph, graph.addScope(name)); };
    const TensorIndex number = graph.addConstant(freshId("seed/number"), TensorData::scalar(++seeds_));
    const Op *own = graph.addConnectedOp(opDef("ModifyRandomSeed"), {op.inputs()[static_cast<size_t>(input)], number},
                                         {freshId("seed/own")}, {}, inheritSettings(op, graph));
    graph.replaceUse({op.index(), input}, own->outputs()[0]);
  }

  // Makes the gradients of the sum of y's elements the outputs of `graph`.
  void differentiate(Graph &graph, TensorIndex y) {
    requireFloat(graph.info(y), y_);
    n_.importer().requireKnownSize(graph, y, y_, "a derivative");
    giveSeeds(graph);
    Composer in(n_, graph);
    const TensorInfo &info = graph.info(y);
    const Value ones = in.scalar(info.dataType(), 1).expand(info.shape());
    std::vector<TensorId> targets;
    for (size_t i = 0; i < xs_.size(); ++i) targets.push_back(graph.tensor(graph.inputs()[i]).id);
    const std::map<TensorId, TensorId> gradients =
        autodiff::growBackward(graph, graph.tensor(y).id, ones.tensor(), targets);
    for (const TensorId &id : targets) {
      const auto found = gradients.find(id);
      const TensorInfo &own = graph.info(graph.find(id));
      graph.markOutput(found != gradients.end() ? graph.find(found->second)
                                                : in.zeros(own.dataType(), own.shape()).tensor());
    }
  }

  NodeContext &n_;
  Names xs_, names_;  // names_: xs, then zs
  std::string y_;
  std::set<GraphId> seeded_;
  uint32_t seeds_ = 0;
};

void importGradient(NodeContext &n) { GradientNode(n).import(); }

}  // namespace

std::vector<ImportRule> gradientRules() {
  return {{"ai.onnx.preview.training", "Gradient", importGradient, {"inputs", "outputs", "xs zs y"}}};
}

}  // namespace popart::onnx
