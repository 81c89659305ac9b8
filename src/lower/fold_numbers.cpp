// See fold_numbers.hpp. One walk in program order, so that a number is known before its readers are visited.
#include "lower/fold_numbers.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "ops/numbers.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

class NumberFolder {
 public:
  NumberFolder(Graph &graph, const EvaluateOp &evaluate) : graph_(graph), evaluate_(evaluate), budget_(graph) {}

  void run() {
    for (const OpIndex o : schedule::orderOps(graph_)) visit(graph_.op(o));
  }

 private:
  void visit(Op &op) {
    if (foldsToNumber(op)) return;
    if (const auto chosen = chosenOperand(op)) return replaceByChosen(op, *chosen);
    if (isRepetition(op)) {
      number_[op.outputs()[0]] = op.inputs()[0];
    } else if (isBroadcasting(op)) {
      if (readsNumbersOnly(op)) {
        computeOnce(op);
      } else {
        readNumbers(op);
      }
    }
  }

  bool isOne(TensorIndex t) const { return graph_.info(t).nelms() == 1; }

  bool foldsToNumber(Op &op) {
    const bool isNumber = std::ranges::all_of(op.outputs(), [&](TensorIndex t) { return !t.valid() || isOne(t); });
    return isNumber && evaluate_ && op.inputCount() > 0 && foldOp(op, evaluate_, budget_);
  }

  // The operand that a Where with one constant condition returns.
  std::optional<InIndex> chosenOperand(const Op &op) const {
    if (!op.is(Role::Where) || !ops::isNumber(graph_.tensor(op.inputs()[0]))) return std::nullopt;
    return graph_.tensor(op.inputs()[0]).tensorData().asDoubles()[0] != 0.0 ? 1 : 2;
  }
  void replaceByChosen(Op &op, InIndex chosen) {
    const TensorIndex t = op.inputs()[static_cast<size_t>(chosen)];
    if (graph_.info(t) != op.outInfo(0)) return expand(op, t);
    graph_.replaceTensor(op.outputs()[0], t);
    graph_.eraseOpAndOutputs(op.index());
  }

  // Whether all elements of a larger result are one number.
  bool isRepetition(const Op &op) const {
    return op.is(Role::Expand) && op.hasOutput(0) && isOne(op.inputs()[0]) && !isOne(op.outputs()[0]);
  }

  // Gradients and updates require operands of equal shape.
  static bool isBroadcasting(const Op &op) {
    return isElementwise(op) && op.outputCount() == 1 && !op.has(Trait::Gradient | Trait::VarUpdate);
  }

  bool readsNumbersOnly(const Op &op) const {
    if (isOne(op.outputs()[0])) return false;
    return std::ranges::all_of(op.inputs(),
                               [&](TensorIndex t) { return !t.valid() || isOne(t) || number_.contains(t); });
  }

  // f(Expand(a), b) → Expand(f(a, b))
  void computeOnce(Op &op) {
    std::vector<TensorIndex> numbers = op.inputs();
    for (TensorIndex &t : numbers)
      if (const auto found = number_.find(t); found != number_.end()) t = found->second;
    Op *once = graph_.addConnectedOp(op.def(), numbers, {graph_.freeId(op.outId(0) + "/number")}, op.attributes(),
                                     inheritSettings(op, graph_));
    const TensorIndex number = once->outputs()[0];
    if (evaluate_) foldOp(*once, evaluate_, budget_);
    expand(op, number);
  }

  // Replaces the op by an Expand of `t`.
  void expand(Op &op, TensorIndex t) {
    const Op *expanded = tryReplace(
        graph_, {opDef("Expand"), {t}, {{"shape", op.outShape(0)}}, inheritSettings(op, graph_), {op.outputs()[0]}},
        [](const Op &) { return true; });
    graph_.moveConstraints(op.index(), expanded->index());
    graph_.eraseOpAndOutputs(op.index());
    if (isRepetition(*expanded)) number_[expanded->outputs()[0]] = t;
  }

  // Reads the numbers themselves, if another operand has the shape of the result.
  void readNumbers(Op &op) {
    const std::vector<TensorIndex> operands = op.inputs();
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto found = number_.find(operands[i]);
      if (found == number_.end()) continue;
      Shape shape = graph_.info(found->second).shape();
      for (size_t j = 0; j < operands.size(); ++j)
        if (j != i && op.inputs()[j].valid()) shape = npOut(shape, graph_.info(op.inputs()[j]).shape());
      if (shape == op.outShape(0)) graph_.connectInput(op.index(), static_cast<InIndex>(i), found->second);
    }
  }

  Graph &graph_;
  const EvaluateOp &evaluate_;
  FoldBudget budget_;
  std::map<TensorIndex, TensorIndex> number_;  // result of an Expand → what it expands
};

}  // namespace

void foldNumbers(Ir &flat, const EvaluateOp &evaluate) {
  for (Graph *graph : flat.getAllGraphs()) NumberFolder(*graph, evaluate).run();
}

}  // namespace popart::lower
