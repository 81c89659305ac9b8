// Schedule: the orders of all graphs that run, as a value, with text and check.
#include <algorithm>
#include <set>

#include "ir/layer_names.hpp"
#include "schedule/lanes.hpp"
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

std::span<const Section> Schedule::sectionsOf(const Graph &graph) const {
  const auto it = sections.find(graph.id);
  return it == sections.end() ? std::span<const Section>() : std::span<const Section>(it->second);
}

Schedule schedule(const Ir &ir) {
  Schedule result;
  for (const Graph *graph : programGraphs(ir)) result.orders.emplace(graph->id, orderOps(*graph));
  return result;
}

namespace {

const Section *sectionAt(std::span<const Section> sections, int position) {
  for (const Section &s : sections)
    if (s.begin <= position && position < s.end()) return &s;
  return nullptr;
}

// The line before the first op of a lane.
std::string laneTitle(std::span<const Section> sections, int position) {
  for (const Section &s : sections)
    for (size_t lane = 0, begin = static_cast<size_t>(s.begin); lane < s.lanes.size(); ++lane) {
      const Lane &l = s.lanes[lane];
      if (static_cast<int>(begin) == position && l.end > position)
        return "  " + std::string(lane == 0 ? "at the same time, " : "and ") + "lane " + l.name + " on " +
               std::to_string(l.threads) + (l.threads == 1 ? " thread:\n" : " threads:\n");
      begin = static_cast<size_t>(l.end);
    }
  return "";
}

}  // namespace

std::string print(const Schedule &schedule, const Ir &ir) {
  std::string text;
  for (const auto &[id, order] : schedule.orders) {
    const Graph &graph = ir.getGraph(id);
    text += graph.getGraphString() + ":\n";
    const std::span<const Section> sections = schedule.sectionsOf(graph);
    for (int i = 0; i < static_cast<int>(order.size()); ++i) {
      const Op &op = graph.op(order[static_cast<size_t>(i)]);
      text += laneTitle(sections, i) + (sectionAt(sections, i) ? "    " : "  ") + stepTitle(op.str(), op.name()) + "\n";
    }
  }
  return text;
}

namespace {

int laneAt(const Section &section, int position) {
  int lane = 0;
  while (section.lanes[static_cast<size_t>(lane)].end <= position) ++lane;
  return lane;
}

bool areConcurrent(std::span<const Section> sections, int a, int b) {
  const Section *section = sectionAt(sections, a);
  return section && section == sectionAt(sections, b) && laneAt(*section, a) != laneAt(*section, b);
}

}  // namespace

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
    const std::span<const Section> sections = schedule.sectionsOf(*graph);
    for (const auto &[before, after] : graph->constraints())
      if (graph->alive(before) && graph->alive(after) && place[before.value] > place[after.value] &&
          !areConcurrent(sections, place[before.value], place[after.value]))
        throw internal_error("schedule: {} runs before {}, against a constraint", graph->op(after).debugName(),
                             graph->op(before).debugName());
    verifyLanes(*graph, order, sections);
  }
}

}  // namespace popart::schedule
