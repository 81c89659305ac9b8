// Greedy clustering in program order. An op joins the cluster of each producer of equal output shape, unless the merged
// set would not be convex, that is, a value leaves the set and returns through an op outside:
//
//        ┌── exp ──┐                 exp and add may merge;
//   x ───┤         ├── add           exp, sum and add may not: sum is not an element-wise op,
//        └── sum ──┘                 so {exp, add} with exp → sum → add is refused.
//
// A value that is stored in remote memory and loaded from it is such a value too: a load depends on the stores before
// it.
//
// The search for such a path walks backwards from the reader's inputs, cluster by cluster, and never goes before the
// producer in the order of the clusters (ClusterOrder). After kMaxVisits ops it stops without merging, which keeps the
// pass linear.
#include "lower/fuse_elementwise.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/hints.hpp"
#include "lower/cluster_order.hpp"
#include "lower/try_replace.hpp"
#include "ops/numbers.hpp"
#include "schedule/remote_accesses.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

constexpr size_t kMaxMembers = 48;   // bounds the temporaries of one kernel
constexpr size_t kMaxOperands = 24;  // inputs; most clusters then fit ElementProgram::kMaxPointers
constexpr int kMaxVisits = 500;      // ops visited by one search; bounds compile time

struct Cluster {
  std::vector<int> members;  // positions, ascending
  Shape shape;
  int name = 0;  // in the order of clusters: the program-order position of its first op
};

class Fuser {
 public:
  Fuser(Ir &ir, Graph &graph, const executable::Backend &backend) : ir_(ir), graph_(graph), backend_(backend) {}

  void run() {
    for (OpIndex o : schedule::orderOps(graph_)) ops_.push_back(&graph_.op(o));
    positionOf_.assign(graph_.opSlots(), -1);
    for (size_t i = 0; i < ops_.size(); ++i) positionOf_[ops_[i]->index().value] = static_cast<int>(i);
    findRemoteAccesses();
    clusterOf_.assign(ops_.size(), -1);
    order_.emplace(static_cast<int>(ops_.size()));
    for (int i = 0; i < static_cast<int>(ops_.size()); ++i)
      if (fusible(*ops_[i])) cluster(i);
    for (const Cluster &c : clusters_)
      if (c.members.size() > 1) replace(c);
  }

 private:
  // An access to remote memory runs after the conflicting ones before it.
  void findRemoteAccesses() {
    struct Accesses {
      int writer = -1;
      std::vector<int> readers;  // since that one
    };
    std::map<std::string, Accesses> byVariable;
    schedule::RemoteAccesses remote;
    for (int i = 0; i < static_cast<int>(ops_.size()); ++i)
      remote.each(*ops_[i], [&](const std::string &variable, bool writes) {
        Accesses &known = byVariable[variable];
        if (known.writer >= 0) accessesBefore_[i].push_back(known.writer);
        if (!writes) return known.readers.push_back(i);
        accessesBefore_[i].insert(accessesBefore_[i].end(), known.readers.begin(), known.readers.end());
        known = {i, {}};
      });
  }

  bool fusible(const Op &op) const {
    std::string reason;
    if (op.settings.hints.count(kKeepApart)) return false;
    return isElementwise(op) && op.outputCount() == 1 && backend_.supports(op, reason);
  }

  int producer(TensorIndex t) const {
    return t.valid() && graph_.tensor(t).hasProducer() ? positionOf_[graph_.tensor(t).producerIndex().value] : -1;
  }

  void cluster(int position) {
    const Op &op = *ops_[position];
    clusterOf_[position] = static_cast<int>(clusters_.size());
    clusters_.push_back({{position}, op.outShape(0), position});
    for (TensorIndex t : op.inputs()) {
      const int p = producer(t);
      if (p < 0 || clusterOf_[p] < 0 || clusterOf_[p] == clusterOf_[position] || staysApart(*ops_[p], op)) continue;
      if (clusters_[clusterOf_[p]].shape == op.outShape(0)) tryMerge(clusterOf_[p], clusterOf_[position]);
    }
  }

  // Merges cluster `b` into cluster `a`, whose results `b` reads.
  void tryMerge(int a, int b) {
    std::vector<int> members;
    std::merge(clusters_[a].members.begin(), clusters_[a].members.end(), clusters_[b].members.begin(),
               clusters_[b].members.end(), std::back_inserter(members));
    if (members.size() > kMaxMembers) return;
    const std::set<int> inside(members.begin(), members.end());
    std::set<TensorIndex> operands;
    for (int m : members)
      for (TensorIndex t : ops_[m]->inputs())
        if (t.valid() && !inside.count(producer(t)) && !ops::isNumber(graph_.tensor(t))) operands.insert(t);
    if (operands.size() > kMaxOperands) return;
    const std::optional<std::vector<int>> between = clustersBetween(clusters_[a], clusters_[b]);
    if (!between) return;
    order_->moveBefore(*between, clusters_[a].name);
    order_->remove(clusters_[b].name);
    clusters_[a].members = std::move(members);
    for (int m : clusters_[b].members) clusterOf_[m] = a;
    clusters_[b].members.clear();
  }

  // The cluster of an op in the order of clusters; an op that cannot be fused is a separate cluster.
  int nameOf(int position) const { return clusterOf_[position] < 0 ? position : clusters_[clusterOf_[position]].name; }

  // Clusters after `a` that `b` depends on; nullopt if one of them depends on `a`, or if there are too
  // many.
  std::optional<std::vector<int>> clustersBetween(const Cluster &a, const Cluster &b) const {
    std::set<int> seen{b.name};
    std::vector<int> between, stack;
    int visits = 0;
    bool meets = false;
    auto visit = [&](int p, bool ofB) {
      if (p < 0) return;
      const int name = nameOf(p);
      if (name == a.name) meets |= !ofB;
      if (name != a.name && !order_->isBefore(name, a.name) && seen.insert(name).second) stack.push_back(p);
    };
    auto visitProducers = [&](int m, bool ofB) {
      for (TensorIndex t : ops_[m]->inputs()) visit(producer(t), ofB);
      if (const auto before = accessesBefore_.find(m); before != accessesBefore_.end())
        for (int p : before->second) visit(p, ofB);
    };
    for (int m : b.members) visitProducers(m, true);
    while (!stack.empty() && !meets) {
      const int p = stack.back();
      stack.pop_back();
      between.push_back(nameOf(p));
      const std::vector<int> alone{p};
      const std::vector<int> &members = clusterOf_[p] < 0 ? alone : clusters_[clusterOf_[p]].members;
      if ((visits += static_cast<int>(members.size())) > kMaxVisits) return std::nullopt;
      for (int m : members) visitProducers(m, false);
    }
    return meets ? std::nullopt : std::optional(std::move(between));
  }

  void replace(const Cluster &c) {
    GraphId id;
    do id = "fused/" + std::to_string(ir_.getAndIncrSubgraphCounter());
    while (ir_.hasGraph(id));
    Graph &body = ir_.createGraph(id);
    std::map<TensorIndex, TensorIndex> inner;
    std::vector<TensorIndex> operands, results;
    const std::set<int> inside(c.members.begin(), c.members.end());
    for (int m : c.members) copyInto(body, *ops_[m], inner, operands);
    for (int m : c.members) {
      const TensorIndex out = ops_[m]->outputs()[0];
      if (!usedOutside(out, inside)) continue;
      body.markOutput(inner.at(out));
      results.push_back(out);
    }
    const Op *fused = tryReplace(graph_,
                                 {opDef("FusedElementwise"),
                                  operands,
                                  {{"body", GraphRef{id}}},
                                  inheritSettings(*ops_[c.members.back()], graph_),
                                  results},
                                 [&](const Op &op) {
                                   std::string reason;
                                   return backend_.supports(op, reason);
                                 });
    if (!fused) return ir_.removeGraph(id);  // the backend has kernels only for the single ops
    for (size_t i = c.members.size(); i-- > 0;) graph_.eraseOpAndOutputs(ops_[c.members[i]]->index());
  }

  void copyInto(Graph &body, const Op &op, std::map<TensorIndex, TensorIndex> &inner,
                std::vector<TensorIndex> &operands) {
    std::vector<TensorIndex> inputs;
    for (TensorIndex t : op.inputs()) {
      if (!t.valid()) {
        inputs.push_back({});
        continue;
      }
      auto it = inner.find(t);
      if (it == inner.end() && ops::isNumber(graph_.tensor(t))) {
        it =
            inner.emplace(t, body.addConstant(body.addScope(graph_.tensor(t).id), graph_.tensor(t).tensorData())).first;
      } else if (it == inner.end()) {
        it = inner.emplace(t, body.addInput(body.addScope(graph_.tensor(t).id), graph_.info(t))).first;
        operands.push_back(t);
      }
      inputs.push_back(it->second);
    }
    Op *copy = body.addConnectedOp(op.def(), inputs, {body.addScope(op.outTensor(0)->id)}, op.attributes(),
                                   copySettings(op, body));
    inner.emplace(op.outputs()[0], copy->outputs()[0]);
  }

  // Ops of clusters fused before this one have no position: they belong to no other cluster.
  bool usedOutside(TensorIndex t, const std::set<int> &inside) const {
    for (const Use &u : graph_.tensor(t).uses())
      if (u.op.value >= positionOf_.size() || !inside.count(positionOf_[u.op.value])) return true;
    return std::find(graph_.outputs().begin(), graph_.outputs().end(), t) != graph_.outputs().end();
  }

  Ir &ir_;
  Graph &graph_;
  const executable::Backend &backend_;
  std::vector<Op *> ops_;  // by position
  std::vector<int> positionOf_, clusterOf_;
  std::map<int, std::vector<int>> accessesBefore_;  // by position of an access to remote memory
  std::vector<Cluster> clusters_;
  std::optional<ClusterOrder> order_;
};

}  // namespace

bool runsApart(const Op &a, const Op &b) {
  const auto hint = [](const Op &op, const char *name) {
    const auto found = op.settings.hints.find(name);
    return found == op.settings.hints.end() ? std::string_view() : std::string_view(found->second);
  };
  return hint(a, kCycle) != hint(b, kCycle) || hint(a, kLane) != hint(b, kLane);
}

bool staysApart(const Op &producer, const Op &reader) {
  const auto isCopy = [](const Op &op) { return op.settings.recomputeType == RecomputeType::Recomputed; };
  return (isCopy(reader) && !isCopy(producer)) || runsApart(producer, reader);
}

bool isElementwise(const Op &op) {
  if (!op.has(Trait::Elementwise) || op.has(Trait::Random) || op.has(Trait::SideEffect) || op.isUserOp() ||
      !op.hasOutput(0))
    return false;
  const auto isComputedWith = [&](TensorIndex t) {
    return !t.valid() || (typeBit(op.getGraph().info(t).dataType()) & kAllTypes) != 0;
  };
  return std::ranges::all_of(op.inputs(), isComputedWith) && std::ranges::all_of(op.outputs(), isComputedWith);
}

void fuseElementwise(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    if (graph->id.rfind("fused/", 0) != 0) Fuser(flat, *graph, backend).run();
}

}  // namespace popart::lower
