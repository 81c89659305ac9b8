// Program order, data order (Kahn's algorithm with a queue on program position) and the order of graphs by calls.
#include "ir/program_order.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

namespace popart {

std::vector<Op *> programOrder(const Graph &graph) {
  std::vector<Op *> ops = graph.ops();
  std::stable_sort(ops.begin(), ops.end(), [](const Op *a, const Op *b) { return a->place() < b->place(); });
  return ops;
}

std::vector<Op *> dataOrder(const Graph &graph) {
  const std::vector<Op *> ops = programOrder(graph);
  std::vector<int> rank(graph.opSlots(), -1), missing(ops.size(), 0);
  for (size_t n = 0; n < ops.size(); ++n) rank[ops[n]->index().value] = static_cast<int>(n);
  std::vector<std::vector<int>> successors(ops.size());
  auto addEdge = [&](OpIndex before, OpIndex after) {
    successors[rank[before.value]].push_back(rank[after.value]);
    ++missing[rank[after.value]];
  };
  for (const Op *op : ops)
    for (TensorIndex t : op->inputs())
      if (t.valid() && graph.tensor(t).hasProducer()) addEdge(graph.tensor(t).producerIndex(), op->index());
  for (const auto &[before, after] : graph.constraints()) addEdge(before, after);

  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t n = 0; n < ops.size(); ++n)
    if (missing[n] == 0) ready.push(static_cast<int>(n));
  std::vector<Op *> order;
  while (!ready.empty()) {
    const int n = ready.top();
    ready.pop();
    order.push_back(ops[n]);
    for (int s : successors[n])
      if (--missing[s] == 0) ready.push(s);
  }
  return order;
}

std::vector<Graph *> calleesFirst(const Ir &ir) {
  std::unordered_map<const Graph *, int> missing;
  std::unordered_map<const Graph *, std::vector<Graph *>> callers;
  const std::vector<Graph *> graphs = ir.getAllGraphs();
  for (Graph *g : graphs)
    for (Graph *callee : g->getCalledGraphs()) {
      callers[callee].push_back(g);
      ++missing[g];
    }
  std::vector<Graph *> order;
  for (Graph *g : graphs)
    if (missing[g] == 0) order.push_back(g);
  for (size_t n = 0; n < order.size(); ++n)
    for (Graph *caller : callers[order[n]])
      if (--missing[caller] == 0) order.push_back(caller);
  return order;
}

}  // namespace popart
