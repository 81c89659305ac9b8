// Greedy clustering in program order. An op joins the cluster of each producer of equal output shape, unless the merged
// set would not be convex, that is, some value leaves the set and comes back through an op outside:
//
//        ┌── exp ──┐                 exp and add may merge;
//   x ───┤         ├── add           exp, sum and add may not: sum is no element-wise op,
//        └── sum ──┘                 so {exp, add} with exp → sum → add is refused.
//
// The search for such a path walks backwards from the set's outside inputs and never goes before the set's first op; it
// is limited, and gives up (no merge) when the limit is reached, which keeps the pass linear.
#include "lower/fuse_elementwise.hpp"

#include <algorithm>
#include <set>

#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

constexpr size_t kMaxMembers = 48;
constexpr size_t kMaxOperands = 24;
constexpr int kMaxVisits = 500;

struct Cluster {
  std::vector<int> members;  // positions, ascending
  Shape shape;
};

class Fuser {
 public:
  Fuser(Ir &ir, Graph &graph, const executable::Backend &backend) : ir_(ir), graph_(graph), backend_(backend) {}

  void run() {
    for (OpIndex o : schedule::orderOps(graph_)) ops_.push_back(&graph_.op(o));
    positionOf_.assign(graph_.opSlots(), -1);
    for (size_t i = 0; i < ops_.size(); ++i) positionOf_[ops_[i]->index().value] = static_cast<int>(i);
    clusterOf_.assign(ops_.size(), -1);
    for (int i = 0; i < static_cast<int>(ops_.size()); ++i)
      if (fusible(*ops_[i])) cluster(i);
    for (const Cluster &c : clusters_)
      if (c.members.size() > 1) replace(c);
  }

 private:
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
    clusters_.push_back({{position}, op.outShape(0)});
    for (TensorIndex t : op.inputs()) {
      const int p = producer(t);
      if (p < 0 || clusterOf_[p] < 0 || clusterOf_[p] == clusterOf_[position]) continue;
      if (clusters_[clusterOf_[p]].shape == op.outShape(0)) tryMerge(clusterOf_[p], clusterOf_[position]);
    }
  }

  void tryMerge(int a, int b) {
    std::vector<int> members;
    std::merge(clusters_[a].members.begin(), clusters_[a].members.end(), clusters_[b].members.begin(),
               clusters_[b].members.end(), std::back_inserter(members));
    if (members.size() > kMaxMembers) return;
    const std::set<int> inside(members.begin(), members.end());
    std::set<TensorIndex> operands;
    std::vector<int> stack;
    for (int m : members)
      for (TensorIndex t : ops_[m]->inputs()) {
        if (!t.valid() || inside.count(producer(t)) || isNumber(graph_.tensor(t))) continue;
        operands.insert(t);
        if (producer(t) >= 0) stack.push_back(producer(t));
      }
    if (operands.size() > kMaxOperands) return;
    if (comesBack(std::move(stack), inside, members.front())) return;
    clusters_[a].members = std::move(members);
    for (int m : clusters_[b].members) clusterOf_[m] = a;
    clusters_[b].members.clear();
  }

  // Whether a backward walk from `stack` reaches the set. Other clusters count as one node each.
  bool comesBack(std::vector<int> stack, const std::set<int> &inside, int first) const {
    std::set<int> seen(stack.begin(), stack.end());
    int visits = 0;
    auto visit = [&](int p) {
      if (p >= first && seen.insert(p).second) stack.push_back(p);
    };
    while (!stack.empty()) {
      const int p = stack.back();
      stack.pop_back();
      if (inside.count(p)) return true;
      if (++visits > kMaxVisits) return true;
      if (p < first) continue;
      for (TensorIndex t : ops_[p]->inputs()) visit(producer(t));
      if (clusterOf_[p] >= 0)
        for (int m : clusters_[clusterOf_[p]].members) visit(m);
    }
    return false;
  }

  void replace(const Cluster &c) {
    GraphId id;
    do id = "fused/" + std::to_string(ir_.getAndIncrSubgraphCounter());
    while (ir_.hasGraph(id));
    Graph &body = ir_.createGraph(id);
    std::map<TensorIndex, TensorIndex> inner;
    std::vector<TensorIndex> operands, results;
    std::vector<TensorId> resultIds;
    const std::set<int> inside(c.members.begin(), c.members.end());
    for (int m : c.members) copyInto(body, *ops_[m], inner, operands);
    for (int m : c.members) {
      const TensorIndex out = ops_[m]->outputs()[0];
      if (!usedOutside(out, inside)) continue;
      body.markOutput(inner.at(out));
      results.push_back(out);
      resultIds.push_back(graph_.tensor(out).id);
    }
    Op::Settings settings = ops_[c.members.back()]->settings;
    settings.sequence = ops_[c.members.back()]->settings.sequence >= 0 ? ops_[c.members.back()]->settings.sequence
                                                                       : ops_[c.members.back()]->index().value;
    for (TensorIndex t : results) graph_.renameTensor(t, graph_.freeId(graph_.tensor(t).id + "/unfused"));
    Op *fused =
        graph_.addConnectedOp(opDef("FusedElementwise"), operands, resultIds, {{"body", GraphRef{id}}}, settings);
    std::string reason;
    if (!backend_.supports(*fused, reason)) return undo(*fused, results, resultIds, id);
    for (size_t i = 0; i < results.size(); ++i) {
      graph_.replaceUses(results[i], fused->outputs()[i]);
      graph_.replaceOutputs(results[i], fused->outputs()[i]);
    }
    for (size_t i = c.members.size(); i-- > 0;) {
      const TensorIndex out = ops_[c.members[i]]->outputs()[0];
      graph_.eraseOp(ops_[c.members[i]]->index());
      graph_.eraseTensor(out);
    }
  }

  // The backend takes the ops one by one only: the cluster stays as it was.
  void undo(Op &fused, const std::vector<TensorIndex> &results, const std::vector<TensorId> &ids, const GraphId &body) {
    const std::vector<TensorIndex> outputs = fused.outputs();
    graph_.eraseOp(fused.index());
    for (TensorIndex t : outputs) graph_.eraseTensor(t);
    for (size_t i = 0; i < results.size(); ++i) graph_.renameTensor(results[i], ids[i]);
    ir_.removeGraph(body);
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
      if (it == inner.end() && isNumber(graph_.tensor(t))) {
        it =
            inner.emplace(t, body.addConstant(body.addScope(graph_.tensor(t).id), graph_.tensor(t).tensorData())).first;
      } else if (it == inner.end()) {
        it = inner.emplace(t, body.addInput(body.addScope(graph_.tensor(t).id), graph_.info(t))).first;
        operands.push_back(t);
      }
      inputs.push_back(it->second);
    }
    Op::Settings settings = op.settings;
    settings.sequence = -1;
    Op *copy = body.addConnectedOp(op.def(), inputs, {body.addScope(op.outTensor(0)->id)}, op.attributes(), settings);
    inner.emplace(op.outputs()[0], copy->outputs()[0]);
  }

  // Fused ops of clusters before this one have no position: they are outside of every other.
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
  std::vector<Cluster> clusters_;
};

}  // namespace

bool isNumber(const Tensor &tensor) {
  return tensor.tensorType() == TensorType::Const && tensor.hasTensorData() && tensor.info.nelms() == 1 &&
         tensor.info.nbytes() <= 8;
}

bool isElementwise(const Op &op) {
  return op.has(Trait::Elementwise) && !op.has(Trait::Random) && !op.has(Trait::SideEffect) && !op.isUserOp() &&
         op.hasOutput(0);
}

void fuseElementwise(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs()) Fuser(flat, *graph, backend).run();
}

}  // namespace popart::lower
