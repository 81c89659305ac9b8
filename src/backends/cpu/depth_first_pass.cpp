// A chain begins at an op whose kernel splits into parts by itself (a batched product) and absorbs the following ops as
// long as this holds: producer and reader split each value between them into the same parts. Part p of the chain then
// depends on no other part.
//
//   s = MatMul(q, k); m = Add(s, mask); w = Softmax(m); y = MatMul(w, v)
//   →  y = DepthFirst(q, k, mask, v; parts = batch x heads, body)
#include <algorithm>
#include <map>
#include <set>

#include "backends/cpu/depth_first.hpp"
#include "backends/cpu/parted_kernel.hpp"
#include "executable/channel_slice.hpp"
#include "schedule/schedule.hpp"

namespace popart::cpu {
namespace {

using executable::isFreeView;
using executable::Kernel;
using executable::takesNoStep;

class Chain {
 public:
  Chain(Ir &ir, Graph &graph, int64_t parts) : ir_(ir), graph_(graph), parts_(parts) {}

  // Returns false if the op cannot extend the chain.
  bool add(Op &op, const Kernel &kernel) {
    if (op.inputs().size() > kMostChainOperands || op.outputs().size() > kMostChainOperands || op.isUserOp())
      return false;
    Member member{&op, {}};
    const auto *parted = dynamic_cast<const PartedKernel *>(&kernel);
    if (!parted || kernel.sharedBytes() > 0 || !parted->inParts(parts_, member.cut)) return false;
    auto values = values_;
    for (const auto &[value, own] : valuesOf(member)) {
      Value &v = values[value];
      ++v.members;
      v.made |= own.made;
      v.cut &= own.cut;
      if (v.isShared() && !v.cut) return false;
    }
    values_ = std::move(values);
    members_.push_back(std::move(member));
    return true;
  }
  // Adds a view of a member's result.
  void addView(Op &view) {
    const auto it = values_.find(root(view.inputs()[0]));
    if (it == values_.end() || !it->second.made) return;
    rootOf_[view.outputs()[0]] = root(view.inputs()[0]);
    views_.push_back(&view);
  }

  // Drops trailing members that share no value with another one.
  void trim() {
    while (!members_.empty() && !sharesAnything(members_.back())) {
      for (const auto &[value, own] : valuesOf(members_.back())) --values_[value].members;
      members_.pop_back();
    }
    std::erase_if(views_, [&](const Op *view) { return values_.at(root(view->inputs()[0])).members == 0; });
  }
  size_t size() const { return members_.size(); }

  // Replaces the members by one op.
  void replace() {
    const std::vector<const Op *> inside = sortedInside();
    const std::set<const Op *> insideSet(inside.begin(), inside.end());
    Graph &body = ir_.createGraph(ir_.createUniqueSubgraphId("depth_first"));
    std::map<TensorIndex, TensorIndex> inner;
    std::vector<TensorIndex> operands, results;
    for (const Op *op : inside) copyInto(body, *op, inner, operands);
    std::vector<TensorId> ids;
    for (const Member &m : members_)
      for (TensorIndex t : m.op->outputs()) {
        if (!t.valid() || !readOutside(t, insideSet)) continue;
        body.markOutput(inner.at(t));
        results.push_back(t);
        ids.push_back(graph_.tensor(t).id);
        graph_.renameTensor(t, graph_.freeId(ids.back() + "/unchained"));
      }
    Op::Settings settings = members_.front().op->settings;
    settings.sequence = settings.sequence >= 0 ? settings.sequence : members_.front().op->index().value;
    Op *chain = graph_.addConnectedOp(opDef("DepthFirst"), operands, ids,
                                      {{"body", GraphRef{body.id}}, {"parts", parts_}}, settings);
    for (size_t i = 0; i < results.size(); ++i) {
      graph_.tensor(chain->outputs()[i]).layout = graph_.tensor(results[i]).layout;
      graph_.replaceUses(results[i], chain->outputs()[i]);
      graph_.replaceOutputs(results[i], chain->outputs()[i]);
    }
    for (const Member &m : members_) graph_.moveConstraints(m.op->index(), chain->index());
    for (size_t i = inside.size(); i-- > 0;) {
      const std::vector<TensorIndex> outputs = inside[i]->outputs();
      graph_.eraseOp(inside[i]->index());
      for (TensorIndex t : outputs)
        if (t.valid()) graph_.eraseTensor(t);
    }
  }

 private:
  struct Member {
    Op *op;
    PartOperands cut;
  };
  // How the members use one value and its views.
  struct Value {
    int members = 0;
    bool made = false;
    bool cut = true;  // whether all operands that are this value are split
    bool isShared() const { return members > 1 && made; }
  };

  TensorIndex root(TensorIndex t) const {
    const auto it = rootOf_.find(t);
    return it == rootOf_.end() ? t : it->second;
  }

  std::map<TensorIndex, Value> valuesOf(const Member &member) const {
    std::map<TensorIndex, Value> values;
    auto note = [&](const std::vector<TensorIndex> &operands, uint64_t cut, bool made) {
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].valid()) continue;
        Value &value = values[root(operands[i])];
        value.members = 1;
        value.made |= made;
        value.cut &= (cut >> i & 1) != 0 && graph_.info(operands[i]).nbytes() % parts_ == 0 &&
                     graph_.tensor(operands[i]).layout.empty();
      }
    };
    note(member.op->inputs(), member.cut.inputs, false);
    note(member.op->outputs(), member.cut.outputs, true);
    return values;
  }

  bool sharesAnything(const Member &member) const {
    const auto own = valuesOf(member);
    return std::any_of(own.begin(), own.end(), [&](const auto &entry) { return values_.at(entry.first).isShared(); });
  }

  bool readOutside(TensorIndex t, const std::set<const Op *> &inside) const {
    const auto &uses = graph_.tensor(t).uses();
    return graph_.tensor(t).isGraphOutput() ||
           std::any_of(uses.begin(), uses.end(), [&](const Use &u) { return !inside.count(&graph_.op(u.op)); });
  }

  // Members and the views between them, in an executable order. A view with readers outside the chain stays there, and
  // the chain gets a copy of it.
  std::vector<const Op *> sortedInside() {
    std::set<const Op *> inside;
    for (const Member &m : members_) inside.insert(m.op);
    for (size_t i = views_.size(); i-- > 0;)
      if (!readOutside(views_[i]->outputs()[0], inside)) inside.insert(views_[i]);
    std::set<TensorIndex> wanted;
    for (const Member &m : members_) wanted.insert(m.op->inputs().begin(), m.op->inputs().end());
    for (size_t i = views_.size(); i-- > 0;) {
      Op &view = *views_[i];
      if (inside.count(&view)) {
        wanted.insert(view.inputs()[0]);
        continue;
      }
      if (!wanted.count(view.outputs()[0])) continue;
      Op *copy = graph_.addConnectedOp(view.def(), view.inputs(), {graph_.freeId(view.outId(0) + "/inside")},
                                       view.attributes(), view.settings);
      for (const Use &u : std::vector<Use>(graph_.tensor(view.outputs()[0]).uses()))
        if (inside.count(&graph_.op(u.op))) graph_.replaceUse(u, copy->outputs()[0]);
      wanted.insert(view.inputs()[0]);
      inside.insert(copy);
    }
    std::vector<const Op *> sorted;
    std::set<const Op *> done;
    auto visit = [&](auto &self, const Op *op) -> void {
      if (!inside.count(op) || !done.insert(op).second) return;
      for (TensorIndex t : op->inputs())
        if (t.valid() && graph_.tensor(t).hasProducer()) self(self, graph_.tensor(t).getProducer());
      sorted.push_back(op);
    };
    for (const Member &m : members_) visit(visit, m.op);
    for (const Op *op : inside) visit(visit, op);  // for views that only views read
    return sorted;
  }

  void copyInto(Graph &body, const Op &op, std::map<TensorIndex, TensorIndex> &inner,
                std::vector<TensorIndex> &operands) {
    std::vector<TensorIndex> inputs;
    for (TensorIndex t : op.inputs()) {
      if (!t.valid()) {
        inputs.push_back({});
        continue;
      }
      auto [it, fresh] = inner.try_emplace(t);
      if (fresh) {
        it->second = body.addInput(body.addScope(graph_.tensor(t).id), graph_.info(t));
        body.tensor(it->second).layout = graph_.tensor(t).layout;
        operands.push_back(t);
      }
      inputs.push_back(it->second);
    }
    std::vector<TensorId> ids(op.outputs().size());
    for (size_t o = 0; o < ids.size(); ++o)
      if (op.outputs()[o].valid()) ids[o] = body.addScope(graph_.tensor(op.outputs()[o]).id);
    Op::Settings settings = op.settings;
    settings.graph = &body;
    settings.sequence = -1;
    Op *copy = body.addConnectedOp(op.def(), inputs, ids, op.attributes(), settings);
    for (size_t o = 0; o < ids.size(); ++o) {
      if (!op.outputs()[o].valid()) continue;
      inner[op.outputs()[o]] = copy->outputs()[o];
      body.tensor(copy->outputs()[o]).layout = graph_.tensor(op.outputs()[o]).layout;
    }
  }

  Ir &ir_;
  Graph &graph_;
  int64_t parts_;
  std::vector<Member> members_;
  std::vector<Op *> views_;                    // of members' results, in order
  std::map<TensorIndex, TensorIndex> rootOf_;  // by view
  std::map<TensorIndex, Value> values_;        // by root
};

// Ops without a step do not end a chain.
bool isKernel(const Op &op) { return !op.has(Trait::Call) && !op.has(Trait::HostIo) && !takesNoStep(op); }

// A part runs on one thread, so an uneven number of parts leaves threads idle at the end.
bool pays(int64_t parts, int threads) {
  constexpr double kBusy = 0.8;  // least share of busy threads (docs/decisions/0010)
  const int64_t turns = (parts + threads - 1) / threads;
  return parts >= 2 * int64_t{threads} && static_cast<double>(parts) >= kBusy * static_cast<double>(turns * threads);
}

void chainGraph(Ir &ir, Graph &graph, const executable::Backend &backend, int threads) {
  const std::vector<OpIndex> order = schedule::orderOps(graph);
  auto kernelOf = [&](const Op &op) {
    std::string reason;
    return isKernel(op) ? backend.createKernel(executable::requestOf(op), reason) : nullptr;
  };
  for (size_t i = 0; i < order.size();) {
    if (!graph.alive(order[i])) {
      ++i;
      continue;
    }
    const auto kernel = kernelOf(graph.op(order[i]));
    const auto *first = dynamic_cast<const PartedKernel *>(kernel.get());
    const int64_t parts = first ? first->parts() : 1;
    if (!pays(parts, threads)) {
      ++i;
      continue;
    }
    Chain chain(ir, graph, parts);
    size_t j = i, last = i;  // one past the chain's last member
    for (; j < order.size(); ++j) {
      Op &op = graph.op(order[j]);
      if (executable::joinsSlices(op)) break;  // earlier members may make the slices that it joins
      if (takesNoStep(op)) {
        if (isFreeView(op)) chain.addView(op);
        continue;
      }
      const auto kernel = kernelOf(op);
      if (!kernel || !chain.add(op, *kernel)) break;
      last = j + 1;
    }
    const size_t before = chain.size();
    chain.trim();
    if (chain.size() < 2) {
      ++i;
      continue;
    }
    // Trimmed members may start another chain.
    for (size_t dropped = before - chain.size(); dropped > 0;) dropped -= !takesNoStep(graph.op(order[--last]));
    chain.replace();
    i = last;
  }
}

}  // namespace

void chainDepthFirst(Ir &program, const executable::Backend &backend, int threads) {
  for (Graph *graph : schedule::programGraphs(program)) chainGraph(program, *graph, backend, threads);
}

}  // namespace popart::cpu
