// One constraint per (reader, update) pair, unless the reader depends on the new value. In a loop body, a loop-carried
// value is what a variable is in the main graph. Then the element-wise ops of updates take the position in program
// order of the last op they depend on, so that the scheduler runs them as soon as they are ready, what they store in
// remote memory with them; and what depends on no op, or on loads alone, runs before its first reader asks for it.
#include "lower/order_updates.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "lower/fuse_elementwise.hpp"
#include "lower/program_tensors.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// A value that replaces another one in memory at the end of the program or of a loop iteration.
struct Replacement {
  TensorIndex old, fresh;
};

// Of the main graph: new values of variables. Of a loop body: the values carried into the next iteration.
std::vector<Replacement> replacementsOf(const Graph &graph, const Op *loop) {
  std::vector<Replacement> result;
  for (const Op *op : graph.ops())
    if (op->is(Role::VariableAssign)) result.push_back({op->inputs()[0], op->inputs()[1]});
  if (!loop) return result;
  for (const Passed &c : passedBy(*loop))
    if (c.inner != c.next) result.push_back({c.inner, c.next});
  return result;
}

// Ops whose results only replacements, or stores to remote memory, read.
std::vector<char> updateOps(const Graph &graph, const std::vector<OpIndex> &order,
                            const std::vector<Replacement> &replacements) {
  std::vector<char> found(graph.opSlots(), 0), isOutput(graph.tensorSlots(), 0), isFresh(graph.tensorSlots(), 0);
  for (TensorIndex t : graph.outputs()) isOutput[t.value] = 1;
  for (const Replacement &r : replacements) isFresh[r.fresh.value] = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const Op &op = graph.op(order[i]);
    bool onlyUpdates = !op.hasSideEffect() && !op.has(Trait::HostIo);
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

// The op that makes a new value, when only assignments read its results; nullptr otherwise. Constraints in front
// of such ops cannot form a cycle.
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

// Ops that read a value or, when a loop carries it, the loop's result, which may be the same memory.
void addReaders(const Graph &graph, TensorIndex t, std::vector<const Op *> &readers) {
  for (const Use &use : graph.tensor(t).uses()) {
    const Op &op = graph.op(use.op);
    readers.push_back(&op);
    if (op.is(Role::Loop) && use.input >= 2 && op.hasOutput(use.input - 2))
      addReaders(graph, op.outputs()[static_cast<size_t>(use.input - 2)], readers);
  }
}

// Whether `to` depends on `from`; true as well when the search is given up.
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
  if (!graph.constraints().empty()) return;  // the program states its own order; never risk a cycle with it
  std::vector<std::pair<OpIndex, OpIndex>> pairs;
  for (const Replacement &r : replacementsOf(graph, loop)) {
    const Op *update = soleUpdate(graph, r.fresh);
    if (!update) continue;
    std::vector<const Op *> readers;
    addReaders(graph, r.old, readers);
    for (const Op *reader : readers)
      if (!reader->is(Role::VariableAssign) && reader != update) pairs.emplace_back(reader->index(), update->index());
  }
  // Only assignments read an update, so that only updates that read one another's old values can form a cycle.
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

// Loads from remote memory, and element-wise ops on those, on variables and on constants alone: they can run at any time.
std::vector<char> freeOps(const Graph &graph, const std::vector<OpIndex> &order) {
  std::vector<char> found(graph.opSlots(), 0);
  for (OpIndex o : order) {
    const Op &op = graph.op(o);
    if (!(op.is(Role::RemoteLoad) || op.is(Role::FusedElementwise) || isElementwise(op))) continue;
    found[o.value] = std::all_of(op.inputs().begin(), op.inputs().end(), [&](TensorIndex t) {
      return !t.valid() || !graph.tensor(t).hasProducer() || found[graph.tensor(t).producerIndex().value] != 0;
    });
  }
  return found;
}

void runEarly(Graph &graph, const Op *loop) {
  const std::vector<OpIndex> order = schedule::orderOps(graph);
  const std::vector<char> updates = updateOps(graph, order, replacementsOf(graph, loop));
  const std::vector<char> free = freeOps(graph, order);
  auto producerOf = [&](TensorIndex t) {
    return t.valid() && graph.tensor(t).hasProducer() ? graph.tensor(t).getProducer() : nullptr;
  };
  for (OpIndex o : order) {
    Op &op = graph.op(o);
    if (!updates[o.value] || !(op.is(Role::FusedElementwise) || op.is(Role::RemoteStore) || isElementwise(op)))
      continue;
    int64_t last = -1;
    for (TensorIndex t : op.inputs())
      if (const Op *producer = producerOf(t); producer && !free[producer->index().value])
        last = std::max(last, producer->place());
    if (last >= 0 && last < op.place()) op.settings.sequence = last;
  }
  // An op must not wait for what could have run before it.
  for (size_t i = order.size(); i-- > 0;)
    for (TensorIndex t : graph.op(order[i]).inputs())
      if (Op *producer = producerOf(t); producer && free[producer->index().value])
        producer->settings.sequence = std::min(producer->place(), graph.op(order[i]).place());
}

// work(graph, the loop whose body it is or null) for the main graph and all loop bodies.
template <class Work>
void eachUpdatedGraph(const Ir &flat, Work work) {
  work(flat.getMainGraph(), nullptr);
  for (Graph *graph : schedule::programGraphs(flat))
    for (const Op *op : graph->ops())
      if (op->is(Role::Loop)) work(*op->getCalledGraphs().front(), op);
}

}  // namespace

void runUpdatesEarly(Ir &flat) { eachUpdatedGraph(flat, runEarly); }

void orderUpdates(Ir &flat) { eachUpdatedGraph(flat, orderGraph); }

}  // namespace popart::lower
