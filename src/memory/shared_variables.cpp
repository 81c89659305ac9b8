// Variables that replicas share. Another replica may write them from the publishing of an update to its end, so nothing
// of this replica may use them in that time; at other times nothing writes them.
#include <map>
#include <set>

#include <popart/error.hpp>

#include "memory/plan.hpp"

namespace popart::memory {
namespace {

using executable::Sharers;

// Walks over the steps of a program in the order in which they run.
class Finder {
 public:
  Finder(const MemoryPlan &plan, const schedule::Schedule &schedule) : plan_(plan), schedule_(schedule) {}

  // Variables by storage.
  std::map<int, Sharers> run(const Graph &main) {
    visit(main);
    for (const auto *moves : {&plan_.carried, &plan_.results})
      for (const auto &[op, copies] : *moves)
        for (const Copy &c : copies) own(c.to);
    for (const Copy &c : plan_.assigned) own(c.to);
    std::erase_if(shared_, [&](const auto &entry) {
      return own_.contains(entry.first) || plan_.storages[static_cast<size_t>(entry.first)].place != Place::Variable;
    });
    return std::move(shared_);
  }

 private:
  // The storage, or the stack whose row it is; -1: none.
  int of(const Graph &graph, TensorIndex t) const {
    int s = t.valid() ? plan_.of(graph, t) : -1;
    while (s >= 0 && plan_.storages[static_cast<size_t>(s)].place == Place::Row)
      s = plan_.storages[static_cast<size_t>(s)].stack;
    return s;
  }
  // Marks it as not shared: something else writes it, or uses it while other replicas may write it.
  void own(int storage) { own_.insert(storage); }

  void visit(const Graph &graph) {
    for (const OpIndex o : schedule_.of(graph)) {
      const Op &op = graph.op(o);
      if (executable::takesNoStep(op)) continue;
      if (op.is(Role::CollectivePublish)) {
        publish(graph, op);
      } else if (op.hasAttr("replaces")) {
        update(graph, op);
      } else {
        touch(graph, op);
      }
    }
  }

  void publish(const Graph &graph, const Op &op) {
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      const int s = of(graph, op.inputs()[i]);
      if (published_.contains(s) || of(graph, op.outputs()[i]) != s) own(s), own(of(graph, op.outputs()[i]));
      published_.insert(s);
    }
  }

  void update(const Graph &graph, const Op &op) {
    const std::vector<int64_t> &replaces = op.attrInts("replaces");
    const bool isPublished = op.hasAttr("channel");
    const Sharers sharers{op.attrInt("group_size"), op.attrInt("stride")};
    std::set<int> given{of(graph, op.inputs()[0])};  // published to the other members
    for (size_t o = 0; o < replaces.size(); ++o) {
      const int s = of(graph, op.outputs()[o]);
      const bool isInPlace = replaces[o] > 0 && of(graph, op.inputs()[static_cast<size_t>(replaces[o])]) == s;
      const bool hasSameSharers = shared_.try_emplace(s, sharers).first->second == sharers;
      if (!isInPlace || !hasSameSharers || !given.insert(s).second || published_.contains(s) != isPublished) own(s);
    }
    for (const TensorIndex t : op.inputs())
      if (const int s = of(graph, t); published_.contains(s) && !given.contains(s)) own(s);
    for (const int s : given) published_.erase(s);
  }

  void touch(const Graph &graph, const Op &op) {
    for (const TensorIndex t : op.inputs())
      if (const int s = of(graph, t); published_.contains(s)) own(s);
    if (op.is(Role::Loop)) {
      const Graph &body = *op.getCalledGraphs().front();
      for (size_t i = 2; i < body.inputs().size(); ++i)
        if (const int s = of(body, body.inputs()[i]); s != of(graph, op.inputs()[i])) own(s);
      for (size_t o = body.inputs().size() - 2; o < op.outputs().size(); ++o) own(of(graph, op.outputs()[o]));
    } else {
      for (const TensorIndex t : op.outputs()) own(of(graph, t));
    }
    if (op.has(Trait::Internal)) return;
    for (const Graph *called : op.getCalledGraphs()) visit(*called);
  }

  const MemoryPlan &plan_;
  const schedule::Schedule &schedule_;
  std::map<int, Sharers> shared_;  // storages that updates write
  std::set<int> own_, published_;
};

}  // namespace

void shareVariables(MemoryPlan &plan, const Ir &program, const schedule::Schedule &schedule) {
  for (const auto &[storage, sharers] : Finder(plan, schedule).run(program.getMainGraph()))
    plan.storages[static_cast<size_t>(storage)].sharers = sharers;
}

void verifySharedVariables(const MemoryPlan &plan, const Ir &program, const schedule::Schedule &schedule) {
  const std::map<int, Sharers> found = Finder(plan, schedule).run(program.getMainGraph());
  for (size_t s = 0; s < plan.storages.size(); ++s) {
    const Storage &storage = plan.storages[s];
    const auto known = found.find(static_cast<int>(s));
    if (storage.sharers.size > 1 && (known == found.end() || known->second != storage.sharers))
      throw internal_error(
          "memory plan: '{}' is shared by {} replicas, but is not written by collectives alone, or "
          "is used while others may write it",
          storage.name, storage.sharers.size);
  }
}

}  // namespace popart::memory
