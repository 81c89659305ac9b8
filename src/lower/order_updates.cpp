// One constraint for each (reader, update) pair, unless the reader depends on the new value. In a loop body,
// loop-carried values are treated like variables of the main graph. Then the element-wise ops of updates move, in
// program order, to the last op they depend on, so that the scheduler runs them as soon as they are ready; their stores
// to remote memory move with them. Other operands of updates (step counters, loads from remote memory) move to their
// first reader, because a gradient would have to wait for them in memory.
#include "lower/order_updates.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "lower/fuse_elementwise.hpp"
#include "lower/program_tensors.hpp"
#include "schedule/remote_accesses.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// A value that replaces another one in memory at the end of the program or of a loop iteration.
struct NewValue {
  TensorIndex old, fresh;
};

// In the main graph: new values of variables. In a loop body: the values carried into the next iteration.
std::vector<NewValue> newValuesOf(const Graph &graph, const Op *loop) {
  std::vector<NewValue> result;
  for (const Op *op : graph.ops())
    if (op->is(Role::VariableAssign)) result.push_back({op->inputs()[0], op->inputs()[1]});
  if (!loop) return result;
  for (const Passed &c : passedBy(*loop))
    if (c.inner != c.next) result.push_back({c.inner, c.next});
  return result;
}

// Element-wise ops whose results are read only by assignments, stores to remote memory and other such ops; and these
// assignments and stores. Not ops that a product reads: an activation that is cast or recomputed for a weight's
// gradient would move into the forward pass.
std::vector<char> updateOps(const Graph &graph, const std::vector<OpIndex> &order,
                            const std::vector<NewValue> &replacements) {
  std::vector<char> found(graph.opSlots(), 0), isOutput(graph.tensorSlots(), 0), isFresh(graph.tensorSlots(), 0);
  for (TensorIndex t : graph.outputs()) isOutput[t.value] = 1;
  for (const NewValue &r : replacements) isFresh[r.fresh.value] = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const Op &op = graph.op(order[i]);
    bool onlyUpdates = op.is(Role::FusedElementwise) || isElementwise(op);
    bool read = false;
    for (TensorIndex t : op.outputs()) {
      if (!t.valid()) continue;
      if (isOutput[t.value]) read = true, onlyUpdates &= isFresh[t.value] != 0;
      for (const Use &use : graph.tensor(t).uses()) read = true, onlyUpdates &= found[use.op.value] != 0;
    }
    found[order[i].value] = op.is(Role::VariableAssign) || op.is(Role::RemoteStore) || (onlyUpdates && read);
  }
  return found;
}

// The producer of a new value, if only assignments read its results; otherwise nullptr. Constraints before such ops
// cannot form a cycle.
Op *soleUpdate(const Graph &graph, TensorIndex fresh) {
  Op *update = graph.tensor(fresh).getProducerUnsafe();
  if (!update) return nullptr;
  for (int o = 0; o < update->outputCount(); ++o) {
    if (!update->hasOutput(o)) continue;
    for (const Op *reader : update->outTensor(o)->consumerOps())
      if (!reader->is(Role::VariableAssign)) return nullptr;
  }
  return update;
}

// The op from which on the old value changes: the one that lets other replicas write it, or the update itself.
const Op &beginOf(const Graph &graph, const Op &update, TensorIndex old) {
  for (TensorIndex t : update.inputs()) {
    const Op *producer = t.valid() ? graph.tensor(t).getProducerUnsafe() : nullptr;
    if (producer && producer->is(Role::CollectivePublish) && std::ranges::count(producer->inputs(), old) > 0)
      return *producer;
  }
  return update;
}

// Adds the readers of a value or, if a loop carries it, of the loop's result, which may be the same memory.
void addReaders(const Graph &graph, TensorIndex t, std::vector<const Op *> &readers) {
  for (const Use &use : graph.tensor(t).uses()) {
    const Op &op = graph.op(use.op);
    readers.push_back(&op);
    if (op.is(Role::Loop) && use.input >= 2 && op.hasOutput(use.input - 2))
      addReaders(graph, op.outputs()[static_cast<size_t>(use.input - 2)], readers);
  }
}

// Whether `to` depends on `from`; also true if the search is stopped early.
bool leadsTo(const std::map<uint32_t, std::vector<uint32_t>> &after, uint32_t from, uint32_t to) {
  constexpr size_t kMostVisits = 100;  // bounds compile time: updates depend on few ops
  std::vector<uint32_t> stack{from};
  std::set<uint32_t> seen{from};
  while (!stack.empty()) {
    const uint32_t op = stack.back();
    stack.pop_back();
    if (op == to || seen.size() > kMostVisits) return true;
    if (const auto it = after.find(op); it != after.end())
      for (uint32_t next : it->second)
        if (seen.insert(next).second) stack.push_back(next);
  }
  return false;
}

void orderGraph(Graph &graph, const Op *loop) {
  if (!graph.constraints().empty()) return;  // the program has its own constraints; avoid cycles with them
  std::vector<std::pair<OpIndex, OpIndex>> pairs;
  for (const NewValue &r : newValuesOf(graph, loop)) {
    const Op *made = soleUpdate(graph, r.fresh);
    if (!made) continue;
    const Op *update = &beginOf(graph, *made, r.old);
    std::vector<const Op *> readers;
    addReaders(graph, r.old, readers);
    for (const Op *reader : readers)
      if (!reader->is(Role::VariableAssign) && reader != update) pairs.emplace_back(reader->index(), update->index());
  }
  // Only assignments read an update, so only updates that read each other's old values can form a cycle.
  std::set<uint32_t> updates;
  for (const auto &pair : pairs) updates.insert(pair.second.value);
  std::map<uint32_t, std::vector<uint32_t>> after;  // among updates
  for (const auto &[reader, update] : pairs) {
    if (updates.count(reader.value)) {
      if (leadsTo(after, update.value, reader.value)) continue;
      after[reader.value].push_back(update.value);
    }
    graph.addConstraint(reader, update);
  }
}

// Place of the op, or of the first reader of its results.
int64_t firstPlace(const Op &op) {
  int64_t first = op.place();
  for (TensorIndex t : op.outputs()) {
    if (!t.valid()) continue;
    for (const Use &use : op.getGraph().tensor(t).uses()) first = std::min(first, op.getGraph().op(use.op).place());
  }
  return first;
}

// Places of the accesses to remote variables so far: stores and loads keep their order. A load that depends only on
// leaves counts at its first reader, before which it will run.
class RemotePlaces {
 public:
  // The last place after which the op must run; -1: none.
  int64_t bound(const Op &op) {
    int64_t latest = -1;
    accesses_.each(op, [&](const std::string &variable, bool writes) {
      const Last &last = last_[variable];
      latest = std::max(latest, writes ? last.access : last.store);
      if (writes)
        for (const Op *load : last.freeLoads) latest = std::max(latest, firstPlace(*load));
    });
    return latest;
  }
  void add(const Op &op, bool isFree) {
    accesses_.each(op, [&](const std::string &variable, bool writes) {
      Last &last = last_[variable];
      if (isFree) return last.freeLoads.push_back(&op);
      last.access = std::max(last.access, op.place());
      if (!writes) return;
      last.store = std::max(last.store, op.place());
      last.freeLoads.clear();  // the store runs after them
    });
  }

 private:
  struct Last {
    int64_t access = -1, store = -1;
    std::vector<const Op *> freeLoads;
  };
  schedule::RemoteAccesses accesses_;
  std::map<std::string, Last> last_;
};

void runEarly(Graph &graph, const Op *loop) {
  const std::vector<OpIndex> order = schedule::orderOps(graph);
  const std::vector<char> updates = updateOps(graph, order, newValuesOf(graph, loop));
  std::vector<char> ofLeaves(graph.opSlots(), 0);
  RemotePlaces remote;
  for (OpIndex o : order) {
    Op &op = graph.op(o);
    const int64_t bound = remote.bound(op);
    ofLeaves[o.value] = bound < 0 && dependsOnLeavesAlone(graph, op, ofLeaves);
    if (updates[o.value] && !op.is(Role::VariableAssign)) {
      int64_t last = -1;
      for (TensorIndex t : op.inputs()) {
        const OpIndex producer = t.valid() ? graph.tensor(t).producerIndex() : OpIndex{};
        if (producer.valid() && !ofLeaves[producer.value]) last = std::max(last, graph.op(producer).place());
      }
      if (last >= 0) last = std::max(last, bound);
      if (last >= 0 && last < op.place()) op.settings.sequence = last;
    }
    remote.add(op, ofLeaves[o.value] != 0);
  }
  // Moves step counters, loads and similar ops before the first op that waits for them.
  for (size_t i = order.size(); i-- > 0;) {
    Op &op = graph.op(order[i]);
    if (!ofLeaves[order[i].value]) continue;
    if (const int64_t first = firstPlace(op); first < op.place()) op.settings.sequence = first;
  }
}

// Calls work(graph, loop whose body it is, or null) for the main graph and all loop bodies.
template <class Work>
void eachUpdatedGraph(const Ir &flat, Work work) {
  work(flat.getMainGraph(), nullptr);
  for (Graph *graph : schedule::programGraphs(flat))
    for (const Op *op : graph->ops())
      if (op->is(Role::Loop)) work(*op->getCalledGraphs().front(), op);
}

}  // namespace

bool dependsOnLeavesAlone(const Graph &graph, const Op &op, const std::vector<char> &ofLeaves) {
  const bool isFree = op.is(Role::RemoteLoad) || !op.hasSideEffect();
  return isFree && !op.is(Role::VariableAssign) && !op.has(Trait::HostIo) &&
         std::ranges::all_of(op.inputs(), [&](TensorIndex t) {
           return !t.valid() || !graph.tensor(t).hasProducer() || ofLeaves[graph.tensor(t).producerIndex().value];
         });
}

void runUpdatesEarly(Ir &flat) { eachUpdatedGraph(flat, runEarly); }

void orderUpdates(Ir &flat) { eachUpdatedGraph(flat, orderGraph); }

}  // namespace popart::lower
