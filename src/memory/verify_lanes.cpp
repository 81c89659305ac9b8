// The ranges of bytes that the ops of each lane, and the bodies they run, access. They are computed only from the plan
// and the graphs, so that errors of sharing and placement are found.
#include <algorithm>
#include <tuple>

#include <popart/error.hpp>

#include "executable/channel_slice.hpp"
#include "memory/plan.hpp"

namespace popart::memory {
namespace {

struct Range {
  Place place;
  int64_t item;  // variable or constant; of the arena, 0
  int64_t begin, end;
  int storage;
};

class Touched {
 public:
  Touched(const MemoryPlan &plan, const schedule::Schedule &schedule) : plan_(plan), schedule_(schedule) {}

  void add(const Graph &graph, const Op &op) {
    for (const TensorIndex t : op.inputs()) touch(graph, t, reads);
    for (size_t o = 0; o < op.outputs().size(); ++o) touch(graph, op.outputs()[o], shows(op, o) ? reads : writes);
    if (const auto shared = plan_.sharedOf.find(&op); shared != plan_.sharedOf.end()) add(shared->second, writes);
    if (!op.has(Trait::Call) || op.has(Trait::Internal)) return;
    for (const auto *moves : {&plan_.carried, &plan_.results})
      if (const auto copies = moves->find(&op); copies != moves->end())
        for (const Copy &c : copies->second) add(c.from, reads), add(c.to, writes);
    for (const Graph *called : op.getCalledGraphs()) {
      const bool isLoop = op.is(Role::Loop);
      for (size_t i = 0; i < called->inputs().size(); ++i) {
        const TensorIndex in = called->inputs()[i];
        // A value that no iteration changes keeps its memory.
        const bool changes = isLoop && !(i >= 2 && called->outputs()[i - 1] == in);
        touch(*called, in, changes ? writes : reads);
      }
      for (const OpIndex o : schedule_.of(*called)) add(*called, called->op(o));
    }
  }

  std::vector<Range> reads, writes;

 private:
  // Whether output `o` is memory that the op does not change: of an operand, or of a value that a loop does not change.
  static bool shows(const Op &op, size_t o) {
    if (!op.is(Role::Loop)) return executable::isFreeView(op) || op.is(Role::LoopRow) || executable::joinsSlices(op);
    const Graph &body = *op.getCalledGraphs().front();
    return o + 2 < body.inputs().size() && body.inputs()[o + 2] == body.outputs()[o + 1];
  }
  void touch(const Graph &graph, TensorIndex t, std::vector<Range> &list) {
    if (t.valid()) add(plan_.of(graph, t), list);
  }
  void add(int storage, std::vector<Range> &list) {
    if (storage < 0) return;
    const Storage *s = &plan_.storages[static_cast<size_t>(storage)];
    const int named = storage;
    if (s->whole >= 0) s = &plan_.storages[static_cast<size_t>(s->whole)];
    while (s->place == Place::Row) {
      if (s->initial >= 0) add(s->initial, list);
      s = &plan_.storages[static_cast<size_t>(s->stack)];
    }
    if (s->place == Place::Arena) {
      list.push_back({s->place, 0, s->offset, s->offset + s->bytes, named});
    } else {
      list.push_back({s->place, s->offset, 0, s->bytes, named});
    }
  }

  const MemoryPlan &plan_;
  const schedule::Schedule &schedule_;
};

auto place(const Range &r) { return std::tuple(r.place, r.item); }

// A pair of ranges, one of each list, that have a byte in common.
const Range *overlap(const std::vector<Range> &sorted, const Range &r) {
  for (const Range &other : sorted)
    if (place(other) == place(r) && other.begin < r.end && r.begin < other.end) return &other;
  return nullptr;
}

void require(const MemoryPlan &plan, const std::vector<Range> &written, const std::vector<Range> &others,
             const std::string &one, const std::string &two) {
  for (const Range &w : written)
    if (const Range *r = overlap(others, w))
      throw internal_error("memory plan: lane {} writes '{}' while lane {} uses '{}' in the same memory", one,
                           plan.storages[static_cast<size_t>(w.storage)].name, two,
                           plan.storages[static_cast<size_t>(r->storage)].name);
}

// Removes duplicates.
void reduce(std::vector<Range> &ranges) {
  const auto key = [](const Range &r) { return std::tuple(r.place, r.item, r.begin, r.end); };
  std::ranges::sort(ranges, {}, key);
  const auto repeated = std::ranges::unique(ranges, {}, key);
  ranges.erase(repeated.begin(), repeated.end());
}

}  // namespace

void verifyLanes(const MemoryPlan &plan, const Ir &program, const schedule::Schedule &schedule) {
  for (const auto &[id, sections] : schedule.sections) {
    const Graph &graph = program.getGraph(id);
    for (const schedule::Section &section : sections) {
      std::vector<Touched> lanes;
      int position = section.begin;
      for (const schedule::Lane &lane : section.lanes) {
        Touched &touched = lanes.emplace_back(plan, schedule);
        for (; position < lane.end; ++position)
          touched.add(graph, graph.op(schedule.of(graph)[static_cast<size_t>(position)]));
        reduce(touched.reads);
        reduce(touched.writes);
      }
      for (size_t a = 0; a < lanes.size(); ++a)
        for (size_t b = 0; b < lanes.size(); ++b) {
          if (a == b) continue;
          require(plan, lanes[a].writes, lanes[b].reads, section.lanes[a].name, section.lanes[b].name);
          if (a < b) require(plan, lanes[a].writes, lanes[b].writes, section.lanes[a].name, section.lanes[b].name);
        }
    }
  }
}

}  // namespace popart::memory
