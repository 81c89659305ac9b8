// See loop_waves.hpp. Every tensor has a round. Results of a loop belong to the round after that of the loop, except
// its stacks, whose rows belong to the loop's own round. Ops that only read rows at their own position keep them rows
// of that round. A loop joins the loops whose rows of its own round it reads: all its other operands are of its round
// or earlier, so it does not wait for the end of any of these loops.
#include "lower/loop_waves.hpp"

#include <algorithm>
#include <map>

#include "base/union_find.hpp"
#include "ir/hints.hpp"
#include "lower/program_tensors.hpp"
#include "ops/control/loops.hpp"
#include "ops/pieces.hpp"
#include "schedule/lanes.hpp"

namespace popart::lower {
namespace {

// Whether the op could run at another time, relative to others of its kind.
bool mayMove(const Op &op) {
  return !schedule::belongsOutside(op) && !op.settings.hints.contains(kLane) && !op.settings.hints.contains(kRing);
}

// Products whose rows have the same right operand, element-wise ops, and ops that only move rows. No other op that
// adds: the order of its sums could depend on the number of rows.
bool keepsRows(const Op &op) {
  if (op.is(Role::MatMul)) return op.inRank(0) >= 2 && op.inRank(1) == 2;
  return op.has(Trait::View) || op.has(Trait::Elementwise) || op.has(Trait::Conversion) || op.is(Role::Transpose) ||
         op.is(Role::Expand) || op.is(Role::Where);
}

class WaveFinder {
 public:
  explicit WaveFinder(const Graph &graph)
      : graph_(graph),
        rows_(graph.tensorSlots()),
        read_(graph.opSlots()),
        depth_(graph.opSlots(), 0),
        isPart_(graph.opSlots(), 0),
        sets_(graph.opSlots()) {}

  std::vector<Wave> run() {
    for (const auto &[before, after] : graph_.constraints()) constrained_.insert({before, after});
    const std::vector<OpIndex> order = schedule::orderOps(graph_);
    for (OpIndex o : order) visit(graph_.op(o));
    std::map<uint32_t, Wave> waves;
    for (OpIndex o : order)
      if (isPart_[o.value]) add(waves[sets_.find(o.value)], graph_.op(o));
    std::vector<Wave> result;
    for (auto &[set, wave] : waves) {
      findWhole(wave);
      result.push_back(std::move(wave));
    }
    return result;
  }

 private:
  struct Rows {
    int round = 0;
    int64_t trips = 0;  // iterations of the loops that made the rows; 0: no rows
    int depth = 0;      // of the last of these loops
  };

  const Rows &of(TensorIndex t) const { return rows_[t.value]; }
  // The round from which on the whole tensor is available.
  int roundOfWhole(TensorIndex t) const { return of(t).round + (of(t).trips > 0); }

  void visit(Op &op) {
    if (const int64_t trips = tripsOf(op); trips > 0)
      visitLoop(op, trips);
    else if (!keepRows(op))
      for (TensorIndex t : op.outputs())
        if (t.valid()) rows_[t.value].round = roundAfter(op);
  }

  int roundAfter(const Op &op) const {
    int round = 0;
    for (TensorIndex t : op.inputs())
      if (t.valid()) round = std::max(round, roundOfWhole(t));
    return round;
  }

  // The number of iterations of a loop that can be divided; otherwise 0.
  int64_t tripsOf(const Op &op) const {
    constexpr int64_t kFewest = 8;  // two chunks of four
    if (!op.is(Role::Loop) || op.hasAttr("counter") || !mayMove(op) || constrained_.contains(op.index())) return 0;
    const int64_t trips = ops::iterationCount(op);
    if (trips < kFewest) return 0;
    const std::vector<Op *> inner = op.getCalledGraphs().front()->ops();
    // Bodies are copied, and graphs that they call would be copied too.
    return std::ranges::all_of(inner, [](const Op *i) { return mayMove(*i) && !i->has(Trait::Call); }) ? trips : 0;
  }

  void visitLoop(Op &loop, int64_t trips) {
    std::vector<OperandRows> reads(loop.inputs().size(), OperandRows::All);
    int round = 0, depth = 0;
    for (const Passed &p : passedBy(loop))
      if (of(p.outer).trips == trips && readsRows(p, trips)) reads[static_cast<size_t>(p.input)] = OperandRows::Made;
    for (size_t i = 0; i < reads.size(); ++i)
      if (const TensorIndex t = loop.inputs()[i]; t.valid())
        round = std::max(round, reads[i] == OperandRows::Made ? of(t).round : roundOfWhole(t));
    for (size_t i = 0; i < reads.size(); ++i) {
      if (reads[i] == OperandRows::All) continue;
      if (of(loop.inputs()[i]).round == round)
        depth = std::max(depth, of(loop.inputs()[i]).depth + 1);
      else
        reads[i] = OperandRows::All;
    }
    const int carried = ops::carriedCount(loop);
    for (int o = 0; o < loop.outputCount(); ++o)
      if (loop.hasOutput(o))
        rows_[loop.outputs()[static_cast<size_t>(o)].value] =
            o < carried || loop.outInfo(o).nelms() == 0 ? Rows{round + 1} : Rows{round, trips, depth};
    depth_[loop.index().value] = depth;
    read_[loop.index().value] = std::move(reads);
    if (depth > 0) join(loop);
  }

  // Whether iteration i reads only block i of the value.
  bool readsRows(const Passed &p, int64_t trips) const {
    if (p.next != p.inner || std::ranges::count(p.graph->outputs(), p.inner) != 1) return false;
    if (p.result.valid() && (!graph_.tensor(p.result).uses().empty() || graph_.tensor(p.result).isGraphOutput()))
      return false;
    const Tensor &stack = p.graph->tensor(p.inner);
    return !stack.uses().empty() && std::ranges::all_of(stack.uses(), [&](const Use &use) {
      const Op &op = p.graph->op(use.op);
      return op.is(Role::LoopRow) && op.attrInt("first") == 0 && op.attrInt("step") == op.attrInt("rows") &&
             op.attrInt("rows") * trips == stack.info.dim(0);
    });
  }

  // Whether the results are rows, one for each row that the op reads.
  bool keepRows(const Op &op) {
    int round = 0;
    InIndex first = -1;
    for (InIndex i = 0; i < op.inputCount(); ++i)
      if (op.hasInput(i)) round = std::max(round, of(op.inputs()[static_cast<size_t>(i)]).round);
    std::vector<OperandRows> reads(op.inputs().size(), OperandRows::All);
    Rows made{round};
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      if (!op.hasInput(i)) continue;
      const Rows &rows = of(op.inputs()[static_cast<size_t>(i)]);
      if (rows.trips == 0 || rows.round < round) continue;
      if (first >= 0 && rows.trips != made.trips) return false;
      if (first < 0) first = i;
      made = {round, rows.trips, std::max(made.depth, rows.depth)};
      reads[static_cast<size_t>(i)] = OperandRows::Made;
    }
    if (first < 0 || !keepsRows(op) || !mayMove(op) || constrained_.contains(op.index())) return false;
    const auto pieces = ops::piecesOf(op, first, 0, made.trips);
    if (!pieces || std::ranges::any_of(pieces->out, [](int axis) { return axis != 0; })) return false;
    for (size_t i = 0; i < reads.size(); ++i) {
      if (!op.inputs()[i].valid()) continue;
      if (pieces->in[i] > 0 || (pieces->in[i] != 0 && reads[i] == OperandRows::Made)) return false;
      if (pieces->in[i] == 0 && reads[i] == OperandRows::All) reads[i] = OperandRows::Slice;
    }
    for (TensorIndex t : op.outputs())
      if (t.valid()) rows_[t.value] = made;
    depth_[op.index().value] = made.depth + 1;  // as the loop that reads it
    read_[op.index().value] = std::move(reads);
    return true;
  }

  // The loop reads rows: puts it, the ops before it and the loops before those into one set.
  void join(const Op &loop) {
    std::vector<const Op *> open{&loop};
    isPart_[loop.index().value] = 1;
    while (!open.empty()) {
      const Op &op = *open.back();
      open.pop_back();
      for (size_t i = 0; i < op.inputs().size(); ++i) {
        if (read_[op.index().value][i] != OperandRows::Made) continue;
        const Op &producer = *graph_.tensor(op.inputs()[i]).getProducer();
        sets_.join(producer.index().value, op.index().value);
        if (!isPart_[producer.index().value]) open.push_back(&producer);
        isPart_[producer.index().value] = 1;
      }
    }
  }

  void add(Wave &wave, Op &op) const {
    const int depth = depth_[op.index().value];
    wave.parts.push_back({&op, depth, read_[op.index().value]});
    if (!wave.parts.back().isLoop()) return;
    wave.trips = ops::iterationCount(op);
    wave.depth = std::max(wave.depth, depth + 1);
  }

  void findWhole(Wave &wave) const {
    for (auto part = wave.parts.rbegin(); part != wave.parts.rend(); ++part) {
      const Op &op = *part->op;
      const size_t before = wave.whole.size();
      for (size_t o = part->isLoop() ? static_cast<size_t>(ops::carriedCount(op)) : 0; o < op.outputs().size(); ++o)
        if (const TensorIndex t = op.outputs()[o]; t.valid() && isReadWhole(wave, t)) wave.whole.push_back(t);
      if (part->isLoop() || !op.has(Trait::View) || wave.whole.size() == before) continue;
      wave.whole.resize(before);
      wave.kept.insert(op.index());
    }
  }
  bool isReadWhole(const Wave &wave, TensorIndex t) const {
    const Tensor &tensor = graph_.tensor(t);
    return tensor.isGraphOutput() || std::ranges::any_of(tensor.uses(), [&](const Use &use) {
             return !isPart_[use.op.value] ||
                    read_[use.op.value][static_cast<size_t>(use.input)] != OperandRows::Made ||
                    wave.kept.contains(use.op);
           });
  }

  const Graph &graph_;
  std::vector<Rows> rows_;                      // by tensor
  std::vector<std::vector<OperandRows>> read_;  // by op, of those that read rows: WavePart::rows
  std::vector<int> depth_;                      // by op, the same
  std::vector<char> isPart_;                    // by op
  UnionFind sets_;                              // of ops
  std::set<OpIndex> constrained_;
};

}  // namespace

bool WavePart::isLoop() const { return op->is(Role::Loop); }

InIndex WavePart::firstMade() const {
  const auto found = std::ranges::find(rows, OperandRows::Made);
  return found == rows.end() ? -1 : static_cast<InIndex>(found - rows.begin());
}

std::vector<Wave> findWaves(const Graph &graph) { return WaveFinder(graph).run(); }

}  // namespace popart::lower
