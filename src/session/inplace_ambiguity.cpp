// Whether results depend on an order that the graph does not determine. If an op modifies memory and returns it as a
// result, and another op reads the same memory, data or constraints must order the two. Memory is followed through
// views and in-place results in one graph. Ops that change memory without returning it, such as a call that updates a
// variable, run in program order.
#include "session/inplace_ambiguity.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/union_find.hpp"
#include "ir/hints.hpp"

namespace popart::session {
namespace {

// Answers which ops must run before which others, between two positions of one schedule.
class Order {
 public:
  explicit Order(const Graph &graph) : before_(graph.opSlots()), after_(graph.opSlots()), place_(graph.opSlots()) {
    int place = 0;
    for (const Op *op : graph.getOpSchedule()) place_[op->index().value] = place++;
    for (const Op *op : graph.ops())
      for (TensorIndex t : op->outputs())
        if (t.valid())
          for (const Use &use : graph.tensor(t).uses()) connect(op->index(), use.op);
    for (const auto &[before, after] : graph.constraints())
      if (graph.alive(before) && graph.alive(after)) connect(before, after);
  }
  int place(const Op *op) const { return place_[op->index().value]; }

  // By op slot: whether `op` must run after `start` (before `end`), for ops up to a position (from a position on).
  std::vector<char> opsAfter(const Op *start, int last) const {
    return reach(after_, start, [&](uint32_t o) { return place_[o] <= last; });
  }
  std::vector<char> opsBefore(const Op *end, int first) const {
    return reach(before_, end, [&](uint32_t o) { return place_[o] >= first; });
  }

 private:
  using Edges = std::vector<std::vector<uint32_t>>;

  void connect(OpIndex before, OpIndex after) {
    after_[before.value].push_back(after.value);
    before_[after.value].push_back(before.value);
  }
  template <class IsInside>
  static std::vector<char> reach(const Edges &edges, const Op *start, const IsInside &isInside) {
    std::vector<char> seen(edges.size(), 0);
    std::vector<uint32_t> stack{start->index().value};
    while (!stack.empty()) {
      const uint32_t o = stack.back();
      stack.pop_back();
      for (uint32_t n : edges[o])
        if (!seen[n] && isInside(n)) seen[n] = 1, stack.push_back(n);
    }
    return seen;
  }

  Edges before_, after_;
  std::vector<int> place_;  // in the schedule
};

// Ops that touch one piece of memory.
struct Accesses {
  std::set<const Op *> modifiers, all;
};

[[noreturn]] void refuse(const Op *modifier, const Op *reader, size_t piece, const UnionFind &memory) {
  TensorId id;
  for (InIndex i = 0; i < modifier->inputCount(); ++i)
    if (modifier->hasInput(i) && memory.find(modifier->inputs()[i].value) == piece && modifier->modifiesInput(i))
      id = modifier->inTensor(i)->id;
  throw error(
      "{}: in-place ambiguity: it modifies memory that {} reads, and nothing orders the two (tensor '{}'). "
      "Order them with popxl.in_sequence",
      modifier->debugName(), reader->debugName(), id);
}

// Every op must be ordered against every modifier. It suffices that each op is ordered after the last modifier before
// it in the schedule and before the next one, because order is transitive.
void checkOrdered(const Accesses &ops, size_t piece, const Order &order, const UnionFind &memory) {
  std::vector<const Op *> scheduled(ops.all.begin(), ops.all.end());
  std::sort(scheduled.begin(), scheduled.end(),
            [&](const Op *a, const Op *b) { return order.place(a) < order.place(b); });
  size_t begin = 0;  // after the last modifier
  for (size_t i = 0; i <= scheduled.size(); ++i) {
    const Op *next = i < scheduled.size() ? scheduled[i] : nullptr;
    if (next && !ops.modifiers.count(next)) continue;
    const Op *last = begin > 0 ? scheduled[begin - 1] : nullptr;
    const size_t end = next ? i + 1 : i;
    if (last && begin < end) {
      const std::vector<char> after = order.opsAfter(last, order.place(scheduled[end - 1]));
      for (size_t k = begin; k < end; ++k)
        if (!after[scheduled[k]->index().value]) refuse(last, scheduled[k], piece, memory);
    }
    if (next && begin < i) {
      const std::vector<char> before = order.opsBefore(next, order.place(scheduled[begin]));
      for (size_t k = begin; k < i; ++k)
        if (!before[scheduled[k]->index().value]) refuse(next, scheduled[k], piece, memory);
    }
    begin = i + 1;
  }
}

UnionFind memoryOf(const Graph &graph) {
  UnionFind memory(graph.tensorSlots());
  for (const Op *op : graph.ops())
    for (InIndex i = 0; i < op->inputCount(); ++i)
      for (OutIndex o = 0; o < op->outputCount(); ++o)
        if (op->hasInput(i) && op->hasOutput(o) && op->aliasesInput(i, o))
          memory.join(op->inputs()[i].value, op->outputs()[o].value);
  return memory;
}

// Whether a result of `op` is the memory of input i.
bool shows(const Op &op, InIndex i) {
  for (OutIndex o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o) && op.aliasesInput(i, o)) return true;
  if (!op.is(Role::Call)) return false;
  const Graph &callee = *op.getCalledGraphs().front();
  const UnionFind memory = memoryOf(callee);
  return std::ranges::any_of(callee.outputs(), [&](TensorIndex t) {
    return memory.find(t.value) == memory.find(callee.inputs()[static_cast<size_t>(i)].value);
  });
}

}  // namespace

void checkInplaceAmbiguity(const Graph &graph) {
  std::vector<std::pair<const Op *, size_t>> modifiers;
  const UnionFind memory = memoryOf(graph);
  for (const Op *op : graph.ops()) {
    // Parts of a variable do not overlap; the compiler has ordered their updates.
    if (op->settings.hints.count(kSerialised) != 0) continue;
    for (InIndex i = 0; i < op->inputCount(); ++i)
      if (op->hasInput(i) && op->modifiesInput(i) && shows(*op, i)) modifiers.emplace_back(op, op->inputs()[i].value);
  }
  if (modifiers.empty()) return;
  std::map<size_t, Accesses> accesses;
  for (const auto &[op, tensor] : modifiers) accesses[memory.find(tensor)].modifiers.insert(op);
  for (const Op *op : graph.ops())
    for (TensorIndex t : op->inputs())
      if (t.valid())
        if (const auto it = accesses.find(memory.find(t.value)); it != accesses.end()) it->second.all.insert(op);
  const Order order(graph);
  for (const auto &[piece, ops] : accesses) checkOrdered(ops, piece, order, memory);
}

}  // namespace popart::session
