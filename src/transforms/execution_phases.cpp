// See execution_phases.hpp.
#include "transforms/execution_phases.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include <popart/error.hpp>

namespace popart::transforms {
namespace {

constexpr const char *kOption = "SessionOptions::executionPhaseSettings";

const Op *makerOf(const Graph &graph, TensorIndex t) {
  return t.valid() ? graph.tensor(t).getProducerUnsafe() : nullptr;
}

// The latest phase of the ops whose results an op reads; nullopt if none has a phase.
std::optional<ExecutionPhase> phaseRead(const Graph &graph, const Op &op) {
  std::optional<ExecutionPhase> latest;
  for (const TensorIndex t : op.inputs())
    if (const Op *maker = makerOf(graph, t); maker && maker->settings.executionPhase)
      latest = std::max(latest.value_or(0), *maker->settings.executionPhase);
  return latest;
}

void cutByWork(const std::vector<Op *> &order, int64_t phases) {
  const auto work = [](const Op &op) {
    const Cost cost = costOf(op);
    return cost.flops + cost.bytesRead + cost.bytesWritten;
  };
  double total = 0, done = 0;
  for (const Op *op : order) total += work(*op);
  for (Op *op : order) {
    const double own = work(*op), middle = done + own / 2;
    op->settings.executionPhase =
        total > 0 ? std::min(phases - 1, static_cast<int64_t>(middle / total * static_cast<double>(phases))) : 0;
    done += own;
  }
}

void checkPhase(const Graph &graph, const Op &op, int64_t phases) {
  const ExecutionPhase phase = *op.settings.executionPhase;
  check(phase >= 0 && phase < phases, "{}: {}: got execution phase {}, expected 0 to {}. Annotate it with one of these",
        kOption, op.debugName(), phase, phases - 1);
  for (const TensorIndex t : op.inputs()) {
    const Op *maker = makerOf(graph, t);
    check(!maker || *maker->settings.executionPhase <= phase,
          "{}: {} reads '{}' of a later phase: got phase {} for it and {} for {}, which makes that tensor. Give it the "
          "same phase or a later one",
          kOption, op.debugName(), t.valid() ? graph.tensor(t).id : "", phase,
          maker ? *maker->settings.executionPhase : 0, maker ? maker->debugName() : "");
  }
}

}  // namespace

void assignExecutionPhases(Graph &graph, int64_t phases) {
  const std::vector<Op *> order = graph.getOpSchedule();
  const auto isAnnotated = [](const Op *op) { return op->settings.executionPhase.has_value(); };
  const auto without = std::ranges::find_if_not(order, isAnnotated);
  const auto annotated = std::ranges::count_if(order, isAnnotated);
  if (annotated == 0) return cutByWork(order, phases);
  check(
      without == order.end(),
      "{}: got {} of {} ops with an execution phase, none for {}. Annotate all ops, or none to have them cut by their "
      "work",
      kOption, annotated, order.size(), without == order.end() ? "" : (*without)->debugName());
  for (const Op *op : order) checkPhase(graph, *op, phases);
}

namespace {

// Keeps the order in which ops read and write each variable, in its memory or through views.
class VariableOrder {
 public:
  explicit VariableOrder(const Graph &graph) : graph_(graph) {}

  // The earliest phase for an op that comes after all previous ones; `phase`: the one that its operands require.
  ExecutionPhase follow(const Op &op, ExecutionPhase phase) {
    for (InIndex i = 0; i < op.inputCount(); ++i)
      if (const TensorIndex root = rootOf(op, i); root.valid())
        phase = std::max(phase, op.modifiesInput(i) ? accessed_[root] : written_[root]);
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      const TensorIndex root = rootOf(op, i);
      if (!root.valid()) continue;
      accessed_[root] = std::max(accessed_[root], phase);
      if (op.modifiesInput(i)) written_[root] = std::max(written_[root], phase);
      for (OutIndex o = 0; o < op.outputCount(); ++o)
        if (op.hasOutput(o) && op.aliasesInput(i, o)) roots_[op.outputs()[static_cast<size_t>(o)]] = root;
    }
    return phase;
  }

 private:
  TensorIndex rootOf(const Op &op, InIndex i) const {
    if (!op.hasInput(i)) return {};
    const TensorIndex t = op.inputs()[static_cast<size_t>(i)];
    if (graph_.tensor(t).tensorType() == TensorType::Variable) return t;
    const auto shown = roots_.find(t);
    return shown == roots_.end() ? TensorIndex{} : shown->second;
  }

  const Graph &graph_;
  std::map<TensorIndex, ExecutionPhase> accessed_, written_;  // latest phase, by variable
  std::map<TensorIndex, TensorIndex> roots_;                  // a view of a variable → the variable
};

// Sets phases of the program; an op without a phase gets that of its operands.
void passOn(const Graph &graph, const std::vector<Op *> &order, int64_t phases, int64_t firstGradient) {
  VariableOrder variables(graph);
  for (Op *op : order) {
    std::optional<ExecutionPhase> &phase = op->settings.executionPhase;
    const std::optional<ExecutionPhase> read = phaseRead(graph, *op);
    if (phase && op->place() >= firstGradient) phase = 2 * phases - 2 - *phase;
    if (read) phase = std::max(phase.value_or(0), *read);
    const ExecutionPhase earliest = variables.follow(*op, phase.value_or(0));
    if (phase || earliest > 0) phase = earliest;
  }
  // Loads, and other ops without operands.
  for (auto op = order.rbegin(); op != order.rend(); ++op) {
    if ((*op)->settings.executionPhase) continue;
    std::optional<ExecutionPhase> earliest;
    for (const TensorIndex t : (*op)->outputs())
      if (t.valid())
        for (const Use &use : graph.tensor(t).uses())
          if (const auto &phase = graph.op(use.op).settings.executionPhase)
            earliest = std::min(earliest.value_or(*phase), *phase);
    (*op)->settings.executionPhase = earliest.value_or(0);
  }
}

}  // namespace

void placeExecutionPhases(Graph &graph, int64_t phases, int64_t stages, std::optional<int64_t> &firstGradient) {
  std::vector<Op *> order = graph.getOpSchedule();
  const int64_t border = firstGradient.value_or(INT64_MAX);
  passOn(graph, order, phases, border);
  std::set<const Op *> backward;
  for (const Op *op : order)
    if (op->place() >= border) backward.insert(op);
  std::ranges::stable_sort(order, {}, [](const Op *op) { return *op->settings.executionPhase; });
  int64_t place = 0;
  firstGradient.reset();
  for (Op *op : order) {
    op->settings.vgraphId = *op->settings.executionPhase % stages;
    if (!firstGradient && backward.count(op)) firstGradient = place;
    op->settings.sequence = place++;
  }
}

}  // namespace popart::transforms
