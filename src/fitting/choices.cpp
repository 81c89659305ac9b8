// See choices.hpp. Costs are those of executable/cost.hpp, as for kernels.
#include "fitting/choices.hpp"

#include <algorithm>
#include <span>

#include "executable/cost.hpp"

namespace popart::fitting {
namespace {

constexpr double kPerStep = 500;  // nanoseconds for an additional kernel or copy

double recomputing(const transforms::SpareMemory &m, const ChoiceRules &rules) {
  const double once = executable::predictedNanoseconds(m.again.flops, m.again.bytesRead + m.again.bytesWritten);
  return static_cast<double>(rules.microBatches) * (once / rules.threads + kPerStep);
}

double moving(const transforms::SpareMemory &m, const ChoiceRules &rules) {
  const double steps = 2 * kPerStep * static_cast<double>(m.moved.size());
  return static_cast<double>(rules.microBatches) * (executable::copyNanoseconds(m.bytesPerMicroBatch) + steps) +
         executable::copyNanoseconds(m.bytesPerUpdate);
}

}  // namespace

std::vector<Choice> rankChoices(const std::vector<transforms::SpareMemory> &spare, const ChoiceRules &rules) {
  std::vector<Choice> choices;
  for (const transforms::SpareMemory &m : spare) {
    const bool mayRepeat = rules.recomputes && !m.repeated.empty(), mayMove = rules.movesOffChip && !m.moved.empty();
    if (!mayRepeat && !mayMove) continue;
    const Choice repeated{&m, Choice::Action::Recompute, recomputing(m, rules)};
    const Choice moved{&m, Choice::Action::MoveOffChip, moving(m, rules)};
    const bool moves =
        mayMove && (!mayRepeat || rules.preference == Preference::OffChip || moved.nanoseconds < repeated.nanoseconds);
    choices.push_back(moves ? moved : repeated);
  }
  std::ranges::stable_sort(choices, {}, [](const Choice &c) {
    return c.nanoseconds / static_cast<double>(std::max<int64_t>(c.memory->bytes, 1));
  });
  return choices;
}

void apply(const std::vector<Choice> &choices, size_t count, pipeline::PipelineOptions &options) {
  for (const Choice &choice : std::span(choices).first(count)) {
    const transforms::SpareMemory &m = *choice.memory;
    if (choice.action == Choice::Action::MoveOffChip) {
      for (const TensorId &id : m.moved) options.offChip.byTensor[id] = true;
      continue;
    }
    options.recompute = transforms::RecomputeRule::Chosen;
    options.recomputeChosen.insert(m.repeated.begin(), m.repeated.end());
  }
}

std::set<TensorId> constantsOf(const std::vector<Choice> &choices, size_t count) {
  std::set<TensorId> ids;
  for (const Choice &choice : std::span(choices).first(count))
    if (choice.memory->isConstant) ids.insert(choice.memory->moved.front());
  return ids;
}

const char *nameOf(const Choice &choice) {
  using Held = transforms::OffChip::Held;
  if (choice.action == Choice::Action::Recompute) return "computed again";
  if (!choice.memory->variable) return "activations off chip";
  switch (*choice.memory->variable) {
    case Held::OptimizerState:
      return "optimizer state off chip";
    case Held::Accumulator:
      return "accumulators off chip";
    case Held::Weight:
      break;
  }
  return "weights off chip";
}

}  // namespace popart::fitting
