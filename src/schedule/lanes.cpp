// See lanes.hpp. One walk over the ops around a cycle assigns each op to a position: before the section, in the lane of
// the only stage it depends on, or after the section. If an op of a stage depends on another stage, either its
// dependences move before the section, or the op and its dependents move after it, whichever is less work; then the
// walk starts again. Loops of the same depth do not depend on each other, so each is a lane.
#include "schedule/lanes.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "ir/hints.hpp"
#include "schedule/remote_accesses.hpp"

namespace popart::schedule {
namespace {

constexpr int kBefore = -1, kAfter = std::numeric_limits<int>::max();
constexpr int kMostMoves = 100;  // largest number of moves out of lanes for one section: bounds compile time

const std::string *hintOf(const Op &op, const char *name) {
  const auto found = op.settings.hints.find(name);
  return found == op.settings.hints.end() ? nullptr : &found->second;
}

int join(int a, int b) { return a == kBefore || a == b ? b : b == kBefore ? a : kAfter; }

// The ops of a range of a graph's order, numbered from the start of the range.
class SectionFinder {
 public:
  // Whether ops without a stage may be in a lane.
  enum class Others : uint8_t { MayJoin, StayOutside };

  SectionFinder(const Graph &graph, std::vector<OpIndex> &order, int begin, int end, const WorkOf &work, Others others)
      : order_(order), begin_(begin), count_(static_cast<size_t>(end - begin)), work_(work), others_(others) {
    for (size_t i = 0; i < count_; ++i) ops_.push_back(&graph.op(order[static_cast<size_t>(begin) + i]));
    stage_.assign(count_, kBefore);
    outside_.assign(count_, 0);
    inputs_.resize(count_);
    readers_.resize(count_);
    pinned_.assign(count_, 0);
  }

  // The section of the ops for which `stageOf` returns a number. Changes the order of the ops.
  template <class StageOf>
  std::optional<Section> run(const Graph &graph, StageOf stageOf, const std::vector<std::string> &names) {
    for (size_t i = 0; i < count_; ++i) {
      outside_[i] = belongsOutside(*ops_[i]);
      if (!outside_[i]) stage_[i] = stageOf(*ops_[i]);
    }
    findDependences(graph);
    for (int moves = 0; !place(); ++moves)
      if (moves == kMostMoves) return std::nullopt;
    if (others_ == Others::MayJoin) takeIntoLanes();
    return arrange(names);
  }

 private:
  void depend(size_t on, size_t i) {
    if (on == i) return;
    inputs_[i].push_back(on);
    readers_[on].push_back(i);
  }

  void findDependences(const Graph &graph) {
    std::vector<int> local(graph.opSlots(), -1);
    for (size_t i = 0; i < count_; ++i) local[ops_[i]->index().value] = static_cast<int>(i);
    const auto at = [&](OpIndex o) { return local[o.value]; };
    for (size_t i = 0; i < count_; ++i)
      for (const TensorIndex t : ops_[i]->inputs())
        if (t.valid() && graph.tensor(t).hasProducer())
          if (const int p = at(graph.tensor(t).producerIndex()); p >= 0) depend(static_cast<size_t>(p), i);
    for (const auto &[before, after] : graph.constraints()) {
      if (!graph.alive(before) || !graph.alive(after) || at(before) < 0 || at(after) < 0) continue;
      const auto a = static_cast<size_t>(at(before)), b = static_cast<size_t>(at(after));
      // Constraints of programs allow ops to share memory. Lanes share no memory with each other, so constraints
      // between lanes are not needed; the memory plan ensures it.
      if (stage_[a] == kBefore || stage_[b] == kBefore || stage_[a] == stage_[b]) depend(a, b);
    }
    orderOutside();
    for (size_t i = 0; i < count_; ++i) waitForReaders(graph, i, at);
  }

  // Accesses to a remote variable, and transfers of a stream, keep their order.
  void orderOutside() {
    RemoteAccesses remote;
    std::map<std::string, std::pair<int, std::vector<size_t>>> variables;  // the last writer, the readers since
    std::map<std::string, size_t> streams;
    for (size_t i = 0; i < count_; ++i) {
      if (ops_[i]->has(Trait::HostIo) && ops_[i]->hasAttr("stream")) {
        const auto [last, first] = streams.try_emplace(ops_[i]->attrString("stream"), i);
        if (!first) depend(std::exchange(last->second, i), i);
      }
      remote.each(*ops_[i], [&](const std::string &variable, bool writes) {
        auto &[writer, readers] = variables.try_emplace(variable, -1, std::vector<size_t>()).first->second;
        if (writer >= 0) depend(static_cast<size_t>(writer), i);
        if (!writes) return readers.push_back(i);
        for (const size_t reader : readers) depend(reader, i);
        writer = static_cast<int>(i);
        readers.clear();
      });
    }
  }

  // An op without a stage may write in place into an operand. If no stage of this cycle reads its result, it waits for
  // all other readers of the operand; otherwise the operand, a ring buffer, would be copied. The next cycle may read
  // its rows.
  template <class At>
  void waitForReaders(const Graph &graph, size_t i, At at) {
    const Op &op = *ops_[i];
    if (stage_[i] != kBefore || outside_[i]) return;
    for (const TensorIndex t : op.outputs())
      if (t.valid())
        for (const Use &use : graph.tensor(t).uses())
          if (const int reader = at(use.op); reader >= 0 && stage_[static_cast<size_t>(reader)] != kBefore) return;
    for (const InplaceDef &variant : op.def().base().inplaces()) {
      if (!op.hasInput(variant.input)) continue;
      for (const Use &use : graph.tensor(op.inputs()[static_cast<size_t>(variant.input)]).uses())
        if (const int reader = at(use.op); reader >= 0 && static_cast<size_t>(reader) < i)
          depend(static_cast<size_t>(reader), i);
    }
  }

  // Returns false if an op of a stage depends on another stage, after one of them was pinned outside.
  bool place() {
    place_.assign(count_, kBefore);
    for (size_t i = 0; i < count_; ++i) {
      if (pinned_[i]) {
        place_[i] = pinned_[i] < 0 ? kBefore : kAfter;
        continue;
      }
      int latest = kBefore;
      for (const size_t p : inputs_[i]) latest = join(latest, place_[p]);
      if (outside_[i]) {
        place_[i] = latest == kBefore ? kBefore : kAfter;
      } else if (stage_[i] == kBefore && others_ == Others::StayOutside) {
        place_[i] = latest == kBefore ? kBefore : kAfter;
      } else if (stage_[i] == kBefore || latest == kBefore || latest == stage_[i]) {
        place_[i] = stage_[i] == kBefore ? latest : stage_[i];
      } else {
        pinCheaper(i);
        return false;
      }
    }
    return true;
  }

  void pinCheaper(size_t i) {
    std::set<size_t> before, behind{i};
    for (const size_t p : inputs_[i])
      if (place_[p] != kBefore && place_[p] != stage_[i]) reach(p, inputs_, before);
    reach(i, readers_, behind);
    const auto workOf = [&](const std::set<size_t> &some) {
      double sum = 0;
      for (const size_t o : some) sum += place_[o] == kBefore && o < i ? 0 : work_(*ops_[o]);
      return sum;
    };
    const bool canMoveBefore = std::ranges::none_of(before, [&](size_t o) { return pinned_[o] > 0; });
    const bool first = canMoveBefore && workOf(before) <= workOf(behind);
    for (const size_t o : first ? before : behind) pinned_[o] = first ? -1 : 1;
  }

  static void reach(size_t from, const std::vector<std::vector<size_t>> &next, std::set<size_t> &seen) {
    std::vector<size_t> stack{from};
    seen.insert(from);
    while (!stack.empty()) {
      const size_t o = stack.back();
      stack.pop_back();
      for (const size_t n : next[o])
        if (seen.insert(n).second) stack.push_back(n);
    }
  }

  // Moves ops whose results only one lane reads into that lane.
  void takeIntoLanes() {
    for (size_t i = count_; i-- > 0;) {
      if (place_[i] != kBefore || stage_[i] != kBefore || outside_[i] || pinned_[i] || ops_[i]->has(Trait::Call))
        continue;
      int reader = kBefore;
      bool isAlone = true;
      for (const size_t r : readers_[i]) {
        if (place_[r] == kAfter) continue;
        isAlone &= place_[r] != kBefore && (reader == kBefore || reader == place_[r]);
        reader = place_[r];
      }
      if (isAlone && reader != kBefore) place_[i] = reader;
    }
  }

  std::optional<Section> arrange(const std::vector<std::string> &names) {
    std::vector<int> lanes;  // in the order of their first ops
    for (size_t i = 0; i < count_; ++i)
      if (place_[i] != kBefore && place_[i] != kAfter && work_(*ops_[i]) > 0 &&
          std::ranges::find(lanes, place_[i]) == lanes.end())
        lanes.push_back(place_[i]);
    if (lanes.size() < 2) return std::nullopt;
    for (int &p : place_)  // lanes with nothing but views
      if (p != kBefore && p != kAfter && std::ranges::find(lanes, p) == lanes.end()) return std::nullopt;
    std::vector<OpIndex> arranged;
    const auto take = [&](int where) {
      for (size_t i = 0; i < count_; ++i)
        if (place_[i] == where) arranged.push_back(ops_[i]->index());
      return begin_ + static_cast<int>(arranged.size());
    };
    Section section;
    section.begin = take(kBefore);
    for (const int lane : lanes) section.lanes.push_back({names[static_cast<size_t>(lane)], take(lane)});
    take(kAfter);
    std::ranges::copy(arranged, order_.begin() + begin_);
    return section;
  }

  std::vector<OpIndex> &order_;
  const int begin_;
  const size_t count_;
  const WorkOf &work_;
  const Others others_;
  std::vector<const Op *> ops_;
  std::vector<int> stage_;     // number of the stage; kBefore: none
  std::vector<char> outside_;  // cannot be in a lane
  std::vector<int> pinned_;    // -1: before, 1: behind
  std::vector<int> place_;     // kBefore, kAfter or the lane
  std::vector<std::vector<size_t>> inputs_, readers_;
};

// The cycles of a graph, in the order of their first ops.
std::vector<std::string> cyclesOf(const Graph &graph, const std::vector<OpIndex> &order) {
  std::vector<std::string> cycles;
  for (const OpIndex o : order) {
    if (!hintOf(graph.op(o), kLane)) continue;
    const std::string *cycle = hintOf(graph.op(o), kCycle);
    const std::string name = cycle ? *cycle : "";
    if (std::ranges::find(cycles, name) == cycles.end()) cycles.push_back(name);
  }
  return cycles;
}

class GraphLanes {
 public:
  GraphLanes(const Graph &graph, std::vector<OpIndex> &order, const WorkOf &work)
      : graph_(graph), order_(order), work_(work) {}

  std::vector<Section> run() {
    std::vector<Section> sections;
    for (const std::string &cycle : cyclesOf(graph_, order_))
      if (const auto section = find(cycle, sections.empty() ? 0 : sections.back().end())) sections.push_back(*section);
    return sections;
  }

 private:
  const std::string *stageIn(const std::string &cycle, const Op &op) const {
    const std::string *own = hintOf(op, kCycle);
    return (own ? *own : "") == cycle ? hintOf(op, kLane) : nullptr;
  }

  // `free`: the end of the previous section.
  std::optional<Section> find(const std::string &cycle, int free) const {
    int begin = -1, end = -1;
    std::vector<std::string> names;
    for (int i = free; i < static_cast<int>(order_.size()); ++i)
      if (const std::string *stage = stageIn(cycle, op(i))) {
        if (begin < 0) begin = i;
        end = i + 1;
        if (std::ranges::find(names, *stage) == names.end()) names.push_back(*stage);
      }
    if (names.size() < 2) return std::nullopt;
    while (begin > free && !hintOf(op(begin - 1), kLane) && !op(begin - 1).has(Trait::Call)) --begin;
    while (end < static_cast<int>(order_.size()) && !hintOf(op(end), kLane) && !op(end).has(Trait::Call)) ++end;
    return SectionFinder(graph_, order_, begin, end, work_, SectionFinder::Others::MayJoin)
        .run(
            graph_,
            [&](const Op &o) {
              const std::string *stage = stageIn(cycle, o);
              return stage ? static_cast<int>(std::ranges::find(names, *stage) - names.begin()) : kBefore;
            },
            names);
  }
  const Op &op(int i) const { return graph_.op(order_[static_cast<size_t>(i)]); }

  const Graph &graph_;
  std::vector<OpIndex> &order_;
  const WorkOf &work_;
};

// Finds sections whose lanes are loops, in a graph and in bodies and branches outside of lanes.
class LoopLanes {
 public:
  LoopLanes(const Ir &ir, Schedule &schedule, const WorkOf &work, const Choose &choose)
      : schedule_(schedule), work_(work), choose_(choose) {
    visit(ir.getMainGraph());
  }

 private:
  void visit(const Graph &graph) {
    std::vector<OpIndex> &order = schedule_.orders.at(graph.id);
    std::vector<Section> sections;
    for (const std::vector<OpIndex> &loops : loopsByDepth(graph, order))
      if (const auto section = find(graph, order, loops, sections.empty() ? 0 : sections.back().end()))
        sections.push_back(*section);
    size_t next = 0;
    for (int i = 0; i < static_cast<int>(order.size()); ++i) {
      while (next < sections.size() && sections[next].end() <= i) ++next;
      const Op &op = graph.op(order[static_cast<size_t>(i)]);
      const bool isInLane = next < sections.size() && sections[next].begin <= i;
      if (isInLane || !op.has(Trait::Call) || op.has(Trait::Internal)) continue;
      for (const Graph *called : op.getCalledGraphs()) visit(*called);
    }
    if (!sections.empty()) schedule_.sections.emplace(graph.id, std::move(sections));
  }

  // Loops by depth: the length of the longest chain of loops that precede them.
  std::vector<std::vector<OpIndex>> loopsByDepth(const Graph &graph, const std::vector<OpIndex> &order) const {
    std::vector<std::vector<OpIndex>> loops;
    if (std::ranges::none_of(order, [&](OpIndex o) { return graph.op(o).is(Role::Loop); })) return loops;
    std::vector<std::vector<OpIndex>> readers(graph.opSlots());
    for (const auto &[before, after] : orderEdges(graph)) readers[before.value].push_back(after);
    std::vector<size_t> depth(graph.opSlots(), 0);
    for (const OpIndex o : order) {
      const Op &op = graph.op(o);
      size_t behind = depth[o.value];
      if (op.is(Role::Loop) && work_(op) > 0 && !belongsOutside(op)) {
        if (loops.size() <= behind) loops.resize(behind + 1);
        loops[behind++].push_back(o);
      }
      for (const OpIndex reader : readers[o.value]) depth[reader.value] = std::max(depth[reader.value], behind);
    }
    return loops;
  }

  // `free`: the end of the previous section.
  std::optional<Section> find(const Graph &graph, std::vector<OpIndex> &order, const std::vector<OpIndex> &loops,
                              int free) const {
    if (loops.size() < 2) return std::nullopt;
    std::vector<int> laneOf(graph.opSlots(), kBefore);
    std::vector<std::string> names;
    for (const OpIndex loop : loops)
      laneOf[loop.value] = static_cast<int>(names.size()),
      names.push_back(graph.op(loop).getCalledGraphs().front()->id);
    int begin = -1, end = -1;
    for (int i = free; i < static_cast<int>(order.size()); ++i)
      if (laneOf[order[static_cast<size_t>(i)].value] != kBefore) begin = begin < 0 ? i : begin, end = i + 1;
    if (begin < 0) return std::nullopt;
    const std::vector<OpIndex> before(order.begin() + begin, order.begin() + end);
    auto section = SectionFinder(graph, order, begin, end, work_, SectionFinder::Others::StayOutside)
                       .run(
                           graph, [&](const Op &op) { return laneOf[op.index().value]; }, names);
    if (section && choose_(graph, order, *section)) return section;
    std::ranges::copy(before, order.begin() + begin);
    return std::nullopt;
  }

  Schedule &schedule_;
  const WorkOf &work_;
  const Choose &choose_;
};

void dropSections(Schedule &schedule, const Graph &graph) {
  schedule.sections.erase(graph.id);
  for (const Op *op : graph.ops())
    if (op->has(Trait::Call))
      for (const Graph *called : op->getCalledGraphs()) dropSections(schedule, *called);
}

}  // namespace

bool belongsOutside(const Op &op) {
  constexpr Role kOrdered[] = {Role::RemoteLoad,         Role::RemoteStore,         Role::VariableAssign,
                               Role::CollectiveReduce,   Role::CollectiveScatter,   Role::CollectiveGather,
                               Role::CollectivePublish,  Role::ReplicatedAllReduce, Role::ReplicatedReduceScatter,
                               Role::ReplicatedAllGather};
  if (op.has(Trait::HostIo) || op.hasSideEffect() || op.hasAttr("replaces") ||  // a CollectiveUpdate
      std::ranges::any_of(kOrdered, [&](Role role) { return op.is(role); }))
    return true;
  if (!op.has(Trait::Call)) return false;
  const auto called = op.getCalledGraphs();
  return std::ranges::any_of(called, [](const Graph *graph) {
    return std::ranges::any_of(graph->ops(), [](const Op *inner) { return belongsOutside(*inner); });
  });
}

Schedule findLanes(const Ir &ir, const Schedule &schedule, const WorkOf &work) {
  Schedule result = schedule;
  for (auto &[id, order] : result.orders)
    if (std::vector<Section> sections = GraphLanes(ir.getGraph(id), order, work).run(); !sections.empty())
      result.sections.emplace(id, std::move(sections));
  const auto found = result.sections;  // threads are divided only once: there is no section inside a lane
  for (const auto &[id, sections] : found) {
    const Graph &graph = ir.getGraph(id);
    for (const Section &s : sections)
      for (int i = s.begin; i < s.end(); ++i)
        if (const Op &op = graph.op(result.of(graph)[static_cast<size_t>(i)]); op.has(Trait::Call))
          for (const Graph *called : op.getCalledGraphs()) dropSections(result, *called);
  }
  return result;
}

Schedule findLoopLanes(const Ir &ir, const Schedule &schedule, const WorkOf &work, const Choose &choose) {
  Schedule result = schedule;
  LoopLanes(ir, result, work, choose);
  return result;
}

Section joinLanes(std::vector<OpIndex> &order, const Section &section, const std::vector<LaneGroup> &groups) {
  const std::vector<OpIndex> old = order;
  Section joined;
  int position = joined.begin = section.begin;
  for (const LaneGroup &group : groups) {
    Lane lane;
    for (const size_t l : group.lanes) {
      lane.name += (lane.name.empty() ? "" : ", ") + section.lanes[l].name;
      for (int i = l == 0 ? section.begin : section.lanes[l - 1].end; i < section.lanes[l].end; ++i)
        order[static_cast<size_t>(position++)] = old[static_cast<size_t>(i)];
    }
    lane.end = position;
    lane.threads = group.threads;
    joined.lanes.push_back(lane);
  }
  return joined;
}

void verifyLanes(const Graph &graph, const std::vector<OpIndex> &order, std::span<const Section> sections) {
  int free = 0;
  for (const Section &s : sections) {
    if (s.begin < free || s.lanes.size() < 2 || s.end() > static_cast<int>(order.size()))
      throw internal_error("schedule: the section of {} at position {} does not fit after {}: {} lanes, {} ops",
                           graph.getGraphString(), s.begin, free, s.lanes.size(), order.size());
    std::vector<int> laneOf(graph.opSlots(), -1);
    int position = free = s.begin;
    for (size_t lane = 0; lane < s.lanes.size(); ++lane)
      for (; position < s.lanes[lane].end; ++position) {
        const Op &op = graph.op(order[static_cast<size_t>(position)]);
        if (belongsOutside(op)) throw internal_error("schedule: {} cannot run in a lane", op.debugName());
        laneOf[op.index().value] = static_cast<int>(lane);
        for (const TensorIndex t : op.inputs()) {
          if (!t.valid() || !graph.tensor(t).hasProducer()) continue;
          const int from = laneOf[graph.tensor(t).producerIndex().value];
          if (from >= 0 && from != static_cast<int>(lane))
            throw internal_error("schedule: {} in lane {} reads '{}', which lane {} of the section makes",
                                 op.debugName(), s.lanes[lane].name, graph.tensor(t).id,
                                 s.lanes[static_cast<size_t>(from)].name);
        }
      }
    free = s.end();
  }
}

}  // namespace popart::schedule
