// Schedule: the orders of all graphs that run, as a value with a text and a check.
#include <algorithm>
#include <set>

#include "schedule/schedule.hpp"

namespace popart::schedule {

std::vector<Graph *> programGraphs(const Ir &ir) {
  std::set<const Graph *> reached{&ir.getMainGraph()};
  std::vector<const Graph *> stack{&ir.getMainGraph()};
  while (!stack.empty()) {
    const Graph *graph = stack.back();
    stack.pop_back();
    for (const Op *op : graph->ops()) {
      if (op->has(Trait::Internal)) continue;
      for (const Graph *called : op->getCalledGraphs())
        if (reached.insert(called).second) stack.push_back(called);
    }
  }
  std::vector<Graph *> graphs = ir.getAllGraphs();
  std::erase_if(graphs, [&](const Graph *graph) { return reached.count(graph) == 0; });
  return graphs;
}

const std::vector<OpIndex> &Schedule::of(const Graph &graph) const {
  const auto it = orders.find(graph.id);
  if (it == orders.end()) throw internal_error("schedule: {} has no order", graph.getGraphString());
  return it->second;
}

Schedule schedule(const Ir &ir) {
  Schedule result;
  for (const Graph *graph : programGraphs(ir)) result.orders.emplace(graph->id, orderOps(*graph));
  return result;
}

std::string print(const Schedule &schedule, const Ir &ir) {
  std::string text;
  for (const auto &[id, order] : schedule.orders) {
    const Graph &graph = ir.getGraph(id);
    text += graph.getGraphString() + ":\n";
    for (OpIndex o : order) {
      const Op &op = graph.op(o);
      text += "  " + op.str() + (op.name().empty() ? "" : "  " + op.name()) + "\n";
    }
  }
  return text;
}

void verify(const Schedule &schedule, const Ir &ir) {
  const std::vector<Graph *> graphs = programGraphs(ir);
  if (graphs.size() != schedule.orders.size())
    throw internal_error("schedule: got {} graphs, expected {}", schedule.orders.size(), graphs.size());
  for (const Graph *graph : graphs) {
    const std::vector<OpIndex> &order = schedule.of(*graph);
    std::vector<int> place(graph->opSlots(), -1);
    for (size_t i = 0; i < order.size(); ++i) {
      if (!graph->alive(order[i]) || place[order[i].value] >= 0)
        throw internal_error("schedule: position {} of {} names an op that was removed or is listed twice", i,
                             graph->getGraphString());
      place[order[i].value] = static_cast<int>(i);
    }
    if (order.size() != graph->opCount())
      throw internal_error("schedule: {} has {} ops, its order {}", graph->getGraphString(), graph->opCount(),
                           order.size());
    for (OpIndex o : order)
      for (TensorIndex t : graph->op(o).inputs())
        if (t.valid() && graph->tensor(t).hasProducer() &&
            place[graph->tensor(t).producerIndex().value] > place[o.value])
          throw internal_error("schedule: {} runs before its input '{}' is made", graph->op(o).debugName(),
                               graph->tensor(t).id);
    for (const auto &[before, after] : graph->constraints())
      if (graph->alive(before) && graph->alive(after) && place[before.value] > place[after.value])
        throw internal_error("schedule: {} runs before {}, against a constraint", graph->op(after).debugName(),
                             graph->op(before).debugName());
  }
}

}  // namespace popart::schedule
