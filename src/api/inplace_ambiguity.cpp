// Whether results depend on an order that the graph does not fix: an op that modifies memory and another op that reads
// the same memory must be ordered by data or by constraints. Memory is followed through views and in-place results in
// one graph.
#include <map>
#include <vector>

#include "api/ir_session.hpp"

namespace popart {
namespace {

// Disjoint sets of tensors that share memory.
class Memory {
 public:
  explicit Memory(size_t tensors) : parent_(tensors) {
    for (size_t i = 0; i < tensors; ++i) parent_[i] = i;
  }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<size_t> parent_;
};

// Ops reachable from `start` along data edges and constraints.
std::vector<bool> reachable(const Graph &graph, const std::vector<std::vector<uint32_t>> &next, OpIndex start) {
  std::vector<bool> seen(graph.opSlots(), false);
  std::vector<uint32_t> stack{start.value};
  while (!stack.empty()) {
    const uint32_t o = stack.back();
    stack.pop_back();
    for (uint32_t n : next[o])
      if (!seen[n]) seen[n] = true, stack.push_back(n);
  }
  return seen;
}

std::vector<std::vector<uint32_t>> successors(const Graph &graph) {
  std::vector<std::vector<uint32_t>> next(graph.opSlots());
  for (const Op *op : graph.ops())
    for (TensorIndex t : op->outputs())
      if (t.valid())
        for (const Use &use : graph.tensor(t).uses()) next[op->index().value].push_back(use.op.value);
  for (const auto &[before, after] : graph.constraints())
    if (graph.alive(before) && graph.alive(after)) next[before.value].push_back(after.value);
  return next;
}

bool modifiesInput(const Op &op, InIndex i) {
  if (op.is("Call") || op.is("Loop")) {
    if (!op.hasAttr("modified")) return false;
    for (int64_t m : op.attrInts("modified"))
      if (m == i) return true;
    return false;
  }
  return op.modifiesInput(i);
}

}  // namespace

void checkInplaceAmbiguity(const Graph &graph) {
  std::vector<std::pair<const Op *, size_t>> modifiers;
  Memory memory(graph.tensorSlots());
  for (const Op *op : graph.ops()) {
    for (InIndex i = 0; i < op->inputCount(); ++i) {
      if (!op->hasInput(i)) continue;
      const size_t t = op->inputs()[i].value;
      if (modifiesInput(*op, i)) modifiers.emplace_back(op, t);
      for (OutIndex o = 0; o < op->outputCount(); ++o)
        if (op->hasOutput(o) && op->aliasesInput(i, o)) memory.join(t, op->outputs()[o].value);
    }
  }
  if (modifiers.empty()) return;
  std::map<size_t, std::vector<const Op *>> readers;
  for (const Op *op : graph.ops())
    for (TensorIndex t : op->inputs())
      if (t.valid()) readers[memory.find(t.value)].push_back(op);
  const auto next = successors(graph);
  std::map<OpIndex, std::vector<bool>> after;
  auto ordered = [&](const Op *a, const Op *b) {
    auto &seen = after[a->index()];
    if (seen.empty()) seen = reachable(graph, next, a->index());
    return static_cast<bool>(seen[b->index().value]);
  };
  for (const auto &[modifier, tensor] : modifiers) {
    for (const Op *reader : readers[memory.find(tensor)]) {
      if (reader == modifier || ordered(modifier, reader) || ordered(reader, modifier)) continue;
      throw error(
          "{}: in-place ambiguity: it modifies memory that {} reads, and nothing orders the two (tensor '{}'). "
          "Order them with popxl.in_sequence",
          modifier->debugName(), reader->debugName(), graph.tensor(TensorIndex{static_cast<uint32_t>(tensor)}).id);
    }
  }
}

}  // namespace popart
