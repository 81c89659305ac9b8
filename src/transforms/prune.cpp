// Backward reachability from effects and kept tensors; unmarked ops are erased, consumers first.
#include "transforms/prune.hpp"

#include <algorithm>
#include <vector>

#include <popart/ir.hpp>

namespace popart::transforms {
namespace {

bool graphHasEffect(const Graph &graph) {
  const auto ops = graph.ops();
  return std::any_of(ops.begin(), ops.end(),
                     [](const Op *op) { return op->hasSideEffect() || (op->has(Trait::Call) && hasEffect(*op)); });
}

}  // namespace

bool hasEffect(const Op &op) {
  if (op.hasSideEffect()) return true;
  for (int i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i) && op.modifiesInput(i)) return true;
  if (!op.has(Trait::Call)) return false;
  const auto called = op.getCalledGraphs();
  return std::any_of(called.begin(), called.end(), [](const Graph *g) { return graphHasEffect(*g); });
}

int prune(Graph &graph, const std::set<TensorId> &anchors) {
  std::vector<char> live(graph.opSlots(), 0);
  std::vector<OpIndex> stack;
  auto mark = [&](OpIndex o) {
    if (!o.valid() || live[o.value]) return;
    live[o.value] = 1;
    stack.push_back(o);
  };
  for (Op *op : graph.ops())
    if (hasEffect(*op)) mark(op->index());
  for (const TensorId &id : anchors)
    if (const TensorIndex t = graph.find(id); t.valid()) mark(graph.tensor(t).producerIndex());
  for (TensorIndex t : graph.outputs()) mark(graph.tensor(t).producerIndex());
  while (!stack.empty()) {
    const OpIndex next = stack.back();
    stack.pop_back();
    for (TensorIndex t : graph.op(next).inputs())
      if (t.valid()) mark(graph.tensor(t).producerIndex());
  }
  std::vector<TensorIndex> orphans;
  int removed = 0;
  for (Op *op : graph.ops()) {
    if (live[op->index().value]) continue;
    for (TensorIndex t : op->outputs())
      if (t.valid()) orphans.push_back(t);
    graph.eraseOp(op->index());
    ++removed;
  }
  for (TensorIndex t : orphans) graph.eraseTensor(t);
  for (Tensor *t : graph.tensorsOfType(TensorType::Const))
    if (t->uses().empty() && !t->hasProducer() && !t->isGraphInput() && !t->isGraphOutput() && !anchors.count(t->id))
      graph.eraseTensor(t->index());
  return removed;
}

}  // namespace popart::transforms
