// List scheduling in program order. In-place ops: all tensors that share memory form one alias set. An op that writes
// the set runs after the readers and writers that precede it in program order, and before those that follow it, unless
// data dependences require otherwise. A remote variable is an alias set too.
#include "schedule/schedule.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "base/union_find.hpp"
#include "schedule/remote_accesses.hpp"

namespace popart::schedule {
namespace {

using Edges = std::vector<std::pair<int, int>>;

struct Access {
  int node;
  bool writes;
};

void addRemoteAccesses(const Graph &graph, const std::vector<Op *> &ops, std::vector<std::vector<Access>> &sets) {
  const std::vector<Tensor *> variables = graph.getIr().getMainGraph().tensorsOfType(TensorType::Variable);
  if (std::none_of(variables.begin(), variables.end(), [](const Tensor *t) { return t->isRemote; })) return;
  RemoteAccesses remote;
  std::map<std::string, std::vector<Access>> byVariable;
  for (size_t n = 0; n < ops.size(); ++n)
    remote.each(*ops[n], [&](const std::string &variable, bool writes) {
      byVariable[variable].push_back({static_cast<int>(n), writes});
    });
  for (auto &[variable, accesses] : byVariable)
    if (std::any_of(accesses.begin(), accesses.end(), [](const Access &a) { return a.writes; }))
      sets.push_back(std::move(accesses));
}

// Accesses per alias set, only for sets that some op writes.
std::vector<std::vector<Access>> memoryAccesses(const Graph &graph, const std::vector<Op *> &ops) {
  UnionFind sets(graph.tensorSlots());
  std::vector<uint32_t> writers;
  for (Op *op : ops)
    for (int i = 0; i < op->inputCount(); ++i) {
      if (!op->hasInput(i)) continue;
      if (op->modifiesInput(i)) writers.push_back(op->inputs()[i].value);
      for (int o = 0; o < op->outputCount(); ++o)
        if (op->hasOutput(o) && op->aliasesInput(i, o)) sets.join(op->inputs()[i].value, op->outputs()[o].value);
    }
  if (writers.empty()) return {};
  std::vector<int> slot(graph.tensorSlots(), -1);
  int count = 0;
  for (uint32_t t : writers)
    if (slot[sets.find(t)] < 0) slot[sets.find(t)] = count++;
  std::vector<std::vector<Access>> accesses(count);
  for (size_t n = 0; n < ops.size(); ++n)
    for (int i = 0; i < ops[n]->inputCount(); ++i) {
      if (!ops[n]->hasInput(i)) continue;
      const int s = slot[sets.find(ops[n]->inputs()[i].value)];
      if (s >= 0) accesses[s].push_back({static_cast<int>(n), ops[n]->modifiesInput(i)});
    }
  return accesses;
}

// Whether there is a path from one node to another. `sorted`: all edges lead to higher positions.
bool reaches(int from, int to, const std::vector<std::vector<int>> &successors, const std::vector<int> &position,
             bool sorted) {
  if (sorted && position[from] > position[to]) return false;
  std::vector<int> stack{from};
  std::vector<char> seen(position.size(), 0);
  while (!stack.empty()) {
    const int n = stack.back();
    stack.pop_back();
    if (n == to) return true;
    for (int s : successors[n])
      if (!seen[s] && (!sorted || position[s] <= position[to])) seen[s] = 1, stack.push_back(s);
  }
  return false;
}

void addMemoryEdges(const Graph &graph, const std::vector<Op *> &ops, const std::vector<int64_t> &keys,
                    const std::vector<int> &base, Edges &edges) {
  auto sets = memoryAccesses(graph, ops);
  addRemoteAccesses(graph, ops, sets);
  if (sets.empty()) return;
  std::vector<int> position(ops.size());
  for (size_t i = 0; i < base.size(); ++i) position[base[i]] = static_cast<int>(i);
  std::vector<std::vector<int>> successors(ops.size());
  for (auto [a, b] : edges) successors[a].push_back(b);
  bool sorted = true;
  auto before = [&](int a, int b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; };
  for (auto accesses : sets) {
    std::sort(accesses.begin(), accesses.end(),
              [&](const Access &x, const Access &y) { return before(x.node, y.node); });
    // Consecutive writers with the readers between them: enough to order all pairs.
    std::vector<int> readers;
    int writer = -1;
    auto link = [&](int a, int b) {
      if (a == b || a < 0) return;
      const bool forward = position[a] < position[b];
      if (!(forward && sorted) && reaches(b, a, successors, position, sorted)) return;  // the edge would close a cycle
      edges.emplace_back(a, b);
      successors[a].push_back(b);
      sorted &= forward;
    };
    for (const Access &x : accesses) {
      link(writer, x.node);
      if (!x.writes) {
        readers.push_back(x.node);
        continue;
      }
      for (int r : readers) link(r, x.node);
      readers.clear();
      writer = x.node;
    }
  }
}

}  // namespace

std::vector<int> order(int n, const Edges &edges, const std::vector<int64_t> &keys) {
  std::vector<std::vector<int>> successors(n);
  std::vector<int> waiting(n, 0);
  for (auto [a, b] : edges) successors[a].push_back(b), ++waiting[b];
  using Item = std::pair<int64_t, int>;
  std::priority_queue<Item, std::vector<Item>, std::greater<Item>> ready;
  for (int i = 0; i < n; ++i)
    if (waiting[i] == 0) ready.emplace(keys[i], i);
  std::vector<int> result;
  result.reserve(n);
  while (!ready.empty()) {
    const int node = ready.top().second;
    ready.pop();
    result.push_back(node);
    for (int s : successors[node])
      if (--waiting[s] == 0) ready.emplace(keys[s], s);
  }
  return result;
}

namespace {

// The ops of a graph as nodes, the edges between them, and an order that obeys them; incomplete if there is a cycle.
struct Ordering {
  std::vector<Op *> ops;
  Edges edges;
  std::vector<int> result;
};

Ordering orderingOf(const Graph &graph, const OpsBeforeKey &earlier = {}) {
  Ordering found{graph.ops(), {}, {}};
  const std::vector<Op *> &ops = found.ops;
  Edges &edges = found.edges;
  std::vector<int> nodeOf(graph.opSlots(), -1);
  std::vector<int64_t> keys(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    nodeOf[ops[i]->index().value] = static_cast<int>(i);
    keys[i] = ops[i]->place();
  }
  for (size_t i = 0; i < ops.size(); ++i)
    for (TensorIndex t : ops[i]->inputs())
      if (t.valid() && graph.tensor(t).hasProducer())
        edges.emplace_back(nodeOf[graph.tensor(t).producerIndex().value], static_cast<int>(i));
  for (const auto &[before, after] : graph.constraints())
    if (graph.alive(before) && graph.alive(after)) edges.emplace_back(nodeOf[before.value], nodeOf[after.value]);
  for (const auto &[after, befores] : earlier)
    for (const Op *before : befores) edges.emplace_back(nodeOf[before->index().value], nodeOf[after->index().value]);

  found.result = order(static_cast<int>(ops.size()), edges, keys);
  if (found.result.size() == ops.size()) {
    const size_t dataEdges = edges.size();
    addMemoryEdges(graph, ops, keys, found.result, edges);
    if (edges.size() != dataEdges) found.result = order(static_cast<int>(ops.size()), edges, keys);
  }
  return found;
}

}  // namespace

std::vector<std::pair<OpIndex, OpIndex>> orderEdges(const Graph &graph) {
  const Ordering found = orderingOf(graph);
  std::vector<std::pair<OpIndex, OpIndex>> result;
  result.reserve(found.edges.size());
  for (const auto &[before, after] : found.edges)
    result.emplace_back(found.ops[before]->index(), found.ops[after]->index());
  return result;
}

namespace {

std::vector<Op *> orderedOps(const Graph &graph, const OpsBeforeKey &earlier) {
  const auto [ops, edges, result] = orderingOf(graph, earlier);
  if (result.size() != ops.size()) {
    std::vector<char> done(ops.size(), 0);
    for (int n : result) done[n] = 1;
    std::vector<std::string> stuck;
    for (size_t i = 0; i < ops.size() && stuck.size() < 5; ++i)
      if (!done[i]) stuck.push_back(ops[i]->debugName());
    throw error("{}: the ops cannot be ordered: data and ordering constraints form a cycle through {}",
                graph.getGraphString(), stuck);
  }
  std::vector<Op *> order;
  order.reserve(result.size());
  for (int n : result) order.push_back(ops[n]);
  return order;
}

}  // namespace

std::vector<OpIndex> orderOps(const Graph &graph) {
  std::vector<OpIndex> order;
  for (const Op *op : orderedOps(graph, {})) order.push_back(op->index());
  return order;
}

}  // namespace popart::schedule

namespace popart {

std::vector<Op *> Graph::getOpSchedule() const { return schedule::orderedOps(*this, {}); }

std::vector<Op *> Graph::getOpSchedule(const OpsBeforeKey &before, RequireOptimalSchedule) const {
  for (const auto &[after, befores] : before)
    for (const Op *op : befores)
      check(&op->getGraph() == this && &after->getGraph() == this,
            "getOpSchedule of {}: {} is to run before {}: got ops of {} and {}, expected ops of this graph",
            getGraphString(), op->debugName(), after->debugName(), op->getGraph().getGraphString(),
            after->getGraph().getGraphString());
  return schedule::orderedOps(*this, before);
}

std::vector<Op *> Ir::getOpSchedule(const OpsBeforeKey &before, RequireOptimalSchedule required) const {
  std::map<const Graph *, OpsBeforeKey> ofGraph;
  for (const auto &[after, befores] : before) ofGraph[&after->getGraph()].emplace(after, befores);
  std::vector<Op *> result;
  for (const Graph *graph : getAllGraphs())
    for (Op *op : graph->getOpSchedule(ofGraph[graph], required)) result.push_back(op);
  return result;
}

}  // namespace popart
