// See off_chip.hpp. One walk over the schedule: the first access to a variable in a phase adds its load.
#include "transforms/off_chip.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <popart/error.hpp>
#include <popart/tensornames.hpp>

#include "transforms/variables.hpp"

namespace popart::transforms {
namespace {

// Phases of the program: forward and backward pass, or those of `OffChip::Phases`; then the update after the last
// micro-batch; and finally stores to the host, which read variables after the step has changed them.
using Phase = int64_t;

class Mover {
 public:
  Mover(Ir &ir, const OffChip &rules, const TensorId &loss, bool accumulates)
      : main_(ir.getMainGraph()), rules_(rules), accumulates_(accumulates), order_(main_.getOpSchedule()) {
    for (Tensor *t : main_.tensorsOfType(TensorType::Variable))
      if (rules_.holds(*t)) t->isRemote = true, aliases_[t->index()] = {t->index(), false};
    const TensorIndex t = loss.empty() ? TensorIndex{} : main_.find(loss);
    const Op *last = t.valid() ? main_.tensor(t).getProducerUnsafe() : nullptr;
    bool afterLoss = false;
    for (const Op *op : order_) {
      const Phase phase = phases_[op->index()] = phaseOf(*op, afterLoss);
      if (const auto [at, fresh] = spans_.emplace(phase, std::pair(op->place(), op->place())); !fresh)
        at->second.second = op->place();
      findAliases(*op);
      afterLoss |= op == last;
    }
  }

  void run() {
    for (Op *op : order_) visit(*op);
    for (auto &[variable, copy] : copies_) storeChanges(variable, copy);
    for (Op *op : order_) moveActivations(*op);
  }

 private:
  struct Copy {  // the copy of a variable in one phase
    TensorIndex value;
    Phase phase = 0;
    const Op *changer = nullptr;  // the last op that has changed it
    TensorIndex changed;          // the value after that op
  };

  Phase phaseOf(const Op &op, bool afterLoss) const {
    if (op.is(Role::HostStore)) return lastPhase() + 2;
    if (accumulates_ && op.settings.executionContext == ExecutionContext::AccumulateOuterFragment)
      return lastPhase() + 1;
    if (rules_.phases) return op.settings.executionPhase.value_or(0);
    return afterLoss ? 1 : 0;
  }
  Phase phaseOf(const Op &op) const { return phases_.at(op.index()); }
  Phase lastPhase() const { return rules_.phases ? 2 * rules_.phases->count - 2 : 1; }

  // ---- variables
  struct Alias {
    TensorIndex variable;  // off chip; invalid: the tensor does not share its memory
    bool isView = false;   // a view of the variable or of a part; false: the variable itself, changed or not
  };

  void findAliases(const Op &op) {
    for (const AliasDef &rule : op.def().aliasRules())
      for (InIndex i = 0; i < op.inputCount(); ++i) {
        if ((rule.input != AliasDef::kEveryInput && rule.input != i) || !op.hasInput(i) || !op.hasOutput(rule.output))
          continue;
        const Alias shown = aliasOf(op.inputs()[static_cast<size_t>(i)]);
        if (shown.variable.valid())
          aliases_[op.outputs()[static_cast<size_t>(rule.output)]] = {shown.variable, shown.isView || !rule.modifies};
      }
  }

  Alias aliasOf(TensorIndex t) const {
    const auto known = aliases_.find(t);
    return known == aliases_.end() ? Alias{} : known->second;
  }

  void visit(Op &op) {
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      if (!op.hasInput(i)) continue;
      const TensorIndex t = op.inputs()[static_cast<size_t>(i)];
      const auto [variable, isView] = aliasOf(t);
      if (!variable.valid()) continue;
      // A value that this phase derived from the variable is in the phase's own copy.
      const bool isOwn = t != variable && phaseOf(*main_.tensor(t).getProducer()) == phaseOf(op);
      if (isView && !isOwn) {
        requireUnchanged(variable, op, i);
        continue;
      }
      Copy &copy = copyFor(variable, op);
      if (!isOwn) main_.connectInput(op.index(), i, copy.value);
      if (op.modifiesInput(i)) copy.changer = &op, copy.changed = isView ? copy.value : valueAfter(op, i);
    }
  }

  // A view that was made in an earlier phase still refers to the copy of that phase.
  void requireUnchanged(TensorIndex variable, const Op &op, InIndex i) const {
    const auto copy = copies_.find(variable);
    check(!op.modifiesInput(i) && !changed_.count(variable) && (copy == copies_.end() || !copy->second.changer),
          "{}: '{}' is kept off chip and is read or written through a view, '{}', that another phase has made before a "
          "change. Keep it on chip with tensorLocationSettingsOverride",
          op.debugName(), main_.tensor(variable).id, op.inId(i));
  }

  // The operand of a change, after the change: the result that replaces it or, for a call, the operand itself.
  static TensorIndex valueAfter(const Op &op, InIndex i) {
    for (const AliasDef &alias : op.def().aliasRules())
      if (alias.modifies && alias.input == i && op.hasOutput(alias.output))
        return op.outputs()[static_cast<size_t>(alias.output)];
    return op.inputs()[static_cast<size_t>(i)];
  }

  // The copy of the variable in the phase of an op, which is the first to use it there or a later one.
  Copy &copyFor(TensorIndex variable, const Op &op) {
    Copy &copy = copies_[variable];
    if (copy.value.valid() && copy.phase == phaseOf(op)) return copy;
    storeChanges(variable, copy);
    const auto changed = changed_.find(variable);
    const Phase stored = changed == changed_.end() ? -1 : changed->second;
    const bool ahead = rules_.preloads(main_.tensor(variable));
    return copy = {load(main_.tensor(variable).id, op, ahead, stored), phaseOf(op), nullptr, {}};
  }

  void storeChanges(TensorIndex variable, Copy &copy) {
    if (!copy.changer) return;
    store(main_.tensor(variable).id, copy.changed, *copy.changer);
    copy.changer = nullptr;
    changed_[variable] = copy.phase;
  }

  // ---- activations
  void moveActivations(const Op &op) {
    for (const TensorIndex t : op.outputs()) {
      if (!t.valid() || aliasOf(t).variable.valid() || !isMoved(main_.tensor(t), op)) continue;
      std::map<Phase, std::vector<Use>> laterUses;
      for (const Use &use : main_.tensor(t).uses())
        if (const auto phase = phases_.find(use.op);
            phase != phases_.end() && isFarAfter(phaseOf(op), phase->second) && phase->second <= lastPhase())
          laterUses[phase->second].push_back(use);
      if (laterUses.empty()) continue;
      const TensorId id = main_.freeId(reservedRemoteArgPrefix() + main_.tensor(t).id);
      Tensor &remote = main_.tensor(main_.addTensor(id, main_.info(t), TensorType::Variable));
      remote.isRemote = true;
      remote.variableSettings = VariableSettings(CommGroup(CommGroupType::None, 0));
      store(id, t, op);
      for (const auto &[phase, uses] : laterUses) {
        const auto first = std::min_element(uses.begin(), uses.end(), [this](const Use &a, const Use &b) {
          return main_.op(a.op).place() < main_.op(b.op).place();
        });
        const TensorIndex loaded =
            load(id, main_.op(first->op), rules_.phases && rules_.phases->preloadActivations, phaseOf(op));
        for (const Use &use : uses) main_.replaceUse(use, loaded);
      }
    }
  }

  // Values that the next phase reads are still on the device.
  bool isFarAfter(Phase made, Phase read) const { return read > made + (rules_.phases ? 1 : 0); }

  bool isMoved(const Tensor &t, const Op &producer) const {
    if (const auto given = rules_.byTensor.find(t.id); given != rules_.byTensor.end()) return given->second;
    if (producer.settings.tensorLocation) return producer.settings.tensorLocation->storage == TensorStorage::OffChip;
    if (!isFloatingPoint(t.info.dataType())) return false;  // seeds, indices
    return rules_.activations.offChip && t.info.nelms() >= rules_.activations.leastElements;
  }

  // ---- ops
  Op::Settings settingsAt(const Op &op) const {
    Op::Settings settings(main_);
    settings.executionContext = op.settings.executionContext;
    settings.sequence = op.place();
    return settings;
  }

  // `ahead`: load at the start of the phase before the reader's, if that is after `stored`, the phase of the store.
  TensorIndex load(const TensorId &id, const Op &reader, bool ahead, Phase stored) {
    Op::Settings settings = settingsAt(reader);
    if (const auto span = spans_.find(phaseOf(reader)); rules_.phases && span->first <= lastPhase()) {
      if (ahead && span != spans_.begin() && std::prev(span)->first > stored)
        settings.sequence = std::prev(span)->second.first;
      else if (rules_.phases->clustersIo)
        settings.sequence = span->second.first;
    }
    return main_
        .addConnectedOp(opDef("RemoteLoad"), {}, {main_.freeId(id + "___loaded")}, {{"remote_buffer", id}}, settings)
        ->outputs()[0];
  }

  void store(const TensorId &id, TensorIndex value, const Op &producer) {
    Op::Settings settings = settingsAt(producer);
    if (rules_.phases && rules_.phases->clustersIo) settings.sequence = spans_.at(phaseOf(producer)).second;
    main_.addConnectedOp(opDef("RemoteStore"), {value}, {}, {{"remote_buffer", id}}, settings);
  }

  Graph &main_;
  const OffChip &rules_;
  const bool accumulates_;
  const std::vector<Op *> order_;
  std::map<OpIndex, Phase> phases_;
  std::map<Phase, std::pair<int64_t, int64_t>> spans_;  // places of the first and last op of a phase
  std::map<TensorIndex, Copy> copies_;                  // copies in the current phase
  std::map<TensorIndex, Alias> aliases_;                // variables off chip, and tensors that share their memory
  std::map<TensorIndex, Phase> changed_;                // variables -> the last phase that has changed them
};

}  // namespace

bool OffChip::any() const {
  const auto moves = [](const auto &entry) { return entry.second; };
  return weights.offChip || optimizerState.offChip || accumulators.offChip || activations.offChip ||
         std::any_of(byTensor.begin(), byTensor.end(), moves);
}

OffChip::Held OffChip::heldAs(const Tensor &variable) {
  if (isAccumulator(variable)) return Held::Accumulator;
  return variable.isOptimizerState ? Held::OptimizerState : Held::Weight;
}

bool OffChip::holds(const Tensor &variable) const {
  if (const auto given = byTensor.find(variable.id); given != byTensor.end()) return given->second;
  if (!isFloatingPoint(variable.info.dataType())) return false;  // seeds, counters
  const Kind &kind = ruleOfKind(*this, variable);
  return kind.offChip && variable.info.nelms() >= kind.leastElements;
}

bool OffChip::preloads(const Tensor &variable) const {
  if (!phases) return false;
  return isAccumulator(variable)     ? phases->preloadAccumulators
         : variable.isOptimizerState ? phases->preloadOptimizerState
                                     : phases->preloadWeights;
}

void moveOffChip(Ir &ir, const OffChip &rules, const TensorId &loss, bool accumulates) {
  Mover(ir, rules, loss, accumulates).run();
}

}  // namespace popart::transforms
