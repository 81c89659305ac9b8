// Numbers for the tensors of all graphs that run, so that a pass can put tensors of different graphs into one set; and
// the values that ops pass to graphs, which have a name in each graph.
#pragma once
#include <unordered_map>
#include <vector>

#include <popart/ir.hpp>

#include "schedule/schedule.hpp"

namespace popart::lower {

class ProgramTensors {
 public:
  explicit ProgramTensors(const Ir &program) : graphs_(schedule::programGraphs(program)) {
    for (const Graph *graph : graphs_) {
      first_.emplace(graph, size_);
      size_ += static_cast<uint32_t>(graph->tensorSlots());
    }
  }
  const std::vector<Graph *> &graphs() const { return graphs_; }
  uint32_t size() const { return size_; }  // numbers are below this; tensors made later have none
  uint32_t number(const Graph &graph, TensorIndex t) const { return first_.at(&graph) + t.value; }

 private:
  std::vector<Graph *> graphs_;
  std::unordered_map<const Graph *, uint32_t> first_;
  uint32_t size_ = 0;
};

// A value that an op passes to a graph.
struct Passed {
  Graph *graph;       // loop body or branch
  int input;          // of the op
  TensorIndex outer;  // the op's input
  TensorIndex inner;  // input of the graph
  // For loops, which carry the value:
  TensorIndex next;    // output of the body; invalid for branches
  TensorIndex result;  // output of the loop; invalid when not connected
  int output = -1;     // of the body
};

// The remote variable, in the main graph, that an op loads or stores; invalid for other ops.
inline TensorIndex remoteVariable(const Op &op) {
  if (!op.is(Role::RemoteLoad) && !op.is(Role::RemoteStore)) return {};
  return op.getIr().getMainGraph().find(op.attrString("remote_buffer"));
}

// The passed values in the order of the op's inputs; empty for ops that are neither Loop nor If.
inline std::vector<Passed> passedBy(const Op &op) {
  std::vector<Passed> result;
  if (op.is(Role::Loop)) {
    Graph &body = *op.getCalledGraphs().front();
    for (int i = 2; i < op.inputCount(); ++i) {
      const auto n = static_cast<size_t>(i);
      result.push_back({&body, i, op.inputs()[n], body.inputs()[n], body.outputs()[n - 1],
                        op.hasOutput(i - 2) ? op.outputs()[n - 2] : TensorIndex{}, i - 1});
    }
  } else if (op.is(Role::If)) {
    int i = 1;
    for (const char *name : {"then_branch", "else_branch"}) {
      Graph &branch = op.getIr().getGraph(op.attributes().getAttribute<GraphRef>(name).id);
      for (TensorIndex inner : branch.inputs())
        result.push_back({&branch, i, op.inputs()[static_cast<size_t>(i)], inner, {}, {}}), ++i;
    }
  }
  return result;
}

}  // namespace popart::lower
