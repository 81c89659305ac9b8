// See shard_state.hpp. One walk over the schedule. A tensor is "in parts" if it exists only in parts: the chosen
// variables and tensors computed from them. All other tensors stay whole, and parts of them are made where they are
// needed: a reduction scatters, element-wise arithmetic runs on parts of its operands, everything else is sliced.
#include "transforms/shard_state.hpp"

#include <algorithm>
#include <vector>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "transforms/prune.hpp"
#include "transforms/variables.hpp"

namespace popart::transforms {
namespace {

bool isCollective(const Op &op) {
  const Role role = op.def().base().role();
  return role == Role::ReplicatedAllReduce || role == Role::ReplicatedReduceScatter ||
         role == Role::ReplicatedAllGather;
}

bool isOver(const Op &collective, const ReplicaGrouping &group) {
  return collective.attrInt("group_size") == group.getGroupSize() && collective.attrInt("stride") == group.getStride();
}

class Sharder {
 public:
  Sharder(Graph &main, const ShardRules &rules, const WeightUpdates &updates, const std::set<TensorId> &anchors)
      : main_(main), rules_(rules), updates_(updates), anchors_(anchors), order_(main.getOpSchedule()) {}

  Shardings run() {
    const Shardings shardings = shareOut(main_, rules_, updates_.firstOp);
    for (const auto &[id, sharding] : shardings) {
      const TensorIndex t = main_.find(id);
      setParts(t, {sharding.domain, sharding.whole.shape()}, t);
    }
    if (shardings.empty()) return {};
    findLateReductions();
    for (Op *op : order_) visit(*op);
    for (const TensorId &id : anchors_) keepAnchor(id);
    eraseReplaced();
    prune(main_, anchors_);
    for (OpIndex sum : updates_.sums) shardSum(sum, shardings);
    eraseReplaced();
    prune(main_, anchors_);
    for (const auto &[reduction, scatter] : scatters_) keepOneReduction(reduction, scatter);
    return shardings;
  }

 private:
  struct Parts {
    ReplicaGrouping domain{1};
    Shape whole;
  };

  bool isUpdate(const Op &op) const { return int64_t{op.index().value} >= updates_.firstOp; }

  // ---- known properties of a tensor
  using Key = std::pair<TensorIndex, std::pair<unsigned, unsigned>>;
  static Key key(TensorIndex t, const ReplicaGrouping &domain) {
    return {t, {domain.getGroupSize(), domain.getStride()}};
  }
  const Parts *inParts(TensorIndex t) const {
    const auto found = t.valid() ? inParts_.find(t) : inParts_.end();
    return found == inParts_.end() ? nullptr : &found->second;
  }
  void setParts(TensorIndex t, const Parts &parts, TensorIndex part) {
    inParts_.insert_or_assign(t, parts);
    parts_[key(t, parts.domain)] = part;
  }
  const Shape &wholeShape(TensorIndex t) const {
    const Parts *parts = inParts(t);
    return parts ? parts->whole : main_.info(t).shape();
  }

  Op::Settings settingsAt(const Op &op) const {
    Op::Settings settings(main_);
    settings.executionContext = op.settings.executionContext;
    settings.sequence = op.place();
    return settings;
  }

  // Copies `op` with other operands; the results have the names of those of `op`, with `suffix`.
  Op *again(const Op &op, const std::vector<TensorIndex> &inputs, const char *suffix) {
    std::vector<TensorId> ids;
    for (const TensorIndex t : op.outputs())
      ids.push_back(t.valid() ? main_.freeId(main_.tensor(t).id + suffix) : TensorId());
    return main_.addConnectedOp(op.def(), inputs, ids, op.attributes(), inheritSettings(op, main_));
  }

  // ---- operands
  // The whole tensor of a tensor in parts, for the ops of one context.
  TensorIndex wholeOf(TensorIndex t, const Op &reader) {
    const Parts parts = inParts_.at(t);
    TensorIndex &whole = wholes_[{t, reader.settings.executionContext}];
    if (!whole.valid())
      whole = gatherParts(main_, parts_.at(key(t, parts.domain)), parts.domain, parts.whole,
                          main_.tensor(t).id + "___gathered", settingsAt(reader));
    return whole;
  }

  void readWhole(Op &op) {
    for (InIndex i = 0; i < op.inputCount(); ++i)
      if (op.hasInput(i) && inParts(op.inputs()[static_cast<size_t>(i)])) {
        check(!op.modifiesInput(i), "{}: it changes '{}', which is sharded over replicas, and cannot work on a part",
              op.debugName(), op.inId(i));
        main_.connectInput(op.index(), i, wholeOf(op.inputs()[static_cast<size_t>(i)], op));
      }
  }

  TensorIndex partOf(TensorIndex t, const ReplicaGrouping &domain, const Op &reader) {
    if (const auto known = parts_.find(key(t, domain)); known != parts_.end()) return known->second;
    const TensorIndex part =
        inParts(t) ? takePart(main_, wholeOf(t, reader), domain, settingsAt(reader)) : makePart(t, domain, reader);
    return parts_[key(t, domain)] = part;
  }

  TensorIndex makePart(TensorIndex t, const ReplicaGrouping &domain, const Op &reader) {
    const Op *producer = main_.tensor(t).getProducerUnsafe();
    if (producer && isUpdate(*producer)) {
      if (isCollective(*producer) && isOver(*producer, domain)) return scatter(*producer, domain);
      if (!hasEffect(*producer) && worksOnParts(*producer, main_.info(t).shape())) {
        const std::vector<TensorIndex> inputs = operandParts(*producer, main_.info(t).shape(), domain);
        return again(*producer, inputs, "___shard")->outputs()[0];
      }
    }
    return takePart(main_, t, domain, settingsAt(reader));
  }

  TensorIndex scatter(const Op &reduction, const ReplicaGrouping &domain) {
    const TensorIndex part =
        reduceScatter(reduction.inputs()[0], domain, reduction.attrString("op"), reduction, reduction.outId(0));
    scatters_.emplace_back(reduction.index(), main_.tensor(part).producerIndex());
    return part;
  }

  // Right after the gradient, which then needs no memory until the update.
  TensorIndex reduceScatter(TensorIndex t, const ReplicaGrouping &domain, const std::string &join, const Op &near,
                            const TensorId &name) {
    Op::Settings settings = settingsAt(near);
    const Op *producer = main_.tensor(t).getProducerUnsafe();
    if (producer && !isUpdate(*producer)) settings.sequence = producer->place();
    return main_
        .addConnectedOp(opDef("ReplicatedReduceScatter"), {t}, {main_.freeId(name + "___shard")},
                        overGroup(domain, join), settings)
        ->outputs()[0];
  }

  // Whether the op is element-wise on tensors of this shape, so that it can run on parts of them.
  bool worksOnParts(const Op &op, const Shape &whole) const {
    return op.has(Trait::Elementwise) && std::ranges::all_of(op.inputs(), [&](TensorIndex t) {
             return !t.valid() || main_.info(t).nelms() == 1 || wholeShape(t) == whole;
           });
  }

  std::vector<TensorIndex> operandParts(const Op &op, const Shape &whole, const ReplicaGrouping &domain) {
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs())
      inputs.push_back(t.valid() && wholeShape(t) == whole ? partOf(t, domain, op) : t);
    return inputs;
  }

  // ---- ops
  void visit(Op &op) {
    const bool reads = std::ranges::any_of(op.inputs(), [&](TensorIndex t) { return inParts(t) != nullptr; });
    if (!reads) return;
    if (!isUpdate(op)) return readWhole(op);
    if (isCollective(op) && op.modifiesInput(0)) return endReduction(op);
    const TensorIndex leading = leadingOperand(op);
    const Parts parts = inParts_.at(leading);
    if (worksOnParts(op, parts.whole)) return workOnParts(op, parts);
    if (updates_.sums.count(op.index())) return addUpParts(op, parts.domain);
    readWhole(op);
  }

  // The operand in parts that determines how the others are divided: the one that is changed, or else the first.
  TensorIndex leadingOperand(const Op &op) const {
    TensorIndex first;
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      const TensorIndex t = op.inputs()[static_cast<size_t>(i)];
      if (!inParts(t)) continue;
      if (op.modifiesInput(i)) return t;
      if (!first.valid()) first = t;
    }
    return first;
  }

  void workOnParts(Op &op, const Parts &parts) {
    std::vector<TensorIndex> inputs = lateReductionOperands(op, parts);
    if (inputs.empty()) inputs = operandParts(op, parts.whole, parts.domain);
    const Op &made = *again(op, inputs, "___shard");
    replaced_.push_back(op.index());
    for (OutIndex o = 0; o < op.outputCount(); ++o) {
      if (!op.hasOutput(o)) continue;
      const TensorIndex old = op.outputs()[static_cast<size_t>(o)], fresh = made.outputs()[static_cast<size_t>(o)];
      if (main_.info(old).shape() != parts.whole) {
        replaceResult(old, fresh);
      } else if (const TensorIndex changed = changedWhole(op, o); changed.valid()) {
        assign(changed, old, fresh, parts, op);
      } else {
        setParts(old, parts, fresh);
      }
    }
  }

  // The whole tensor whose memory output `o` of the op shares.
  TensorIndex changedWhole(const Op &op, OutIndex o) const {
    for (const AliasDef &alias : op.def().aliasRules())
      if (alias.modifies && alias.output == o && op.hasInput(alias.input))
        if (const TensorIndex t = op.inputs()[static_cast<size_t>(alias.input)]; !inParts(t)) return t;
    return {};
  }

  // The update of a whole tensor, of which `fresh` is this replica's part.
  void assign(TensorIndex variable, TensorIndex old, TensorIndex fresh, const Parts &parts, const Op &op) {
    const TensorIndex whole =
        gatherParts(main_, fresh, parts.domain, parts.whole, main_.tensor(old).id + "___gathered", settingsAt(op));
    const TensorIndex assigned = main_
                                     .addConnectedOp(opDef("CopyVarUpdate"), {variable, whole},
                                                     {main_.freeId(main_.tensor(old).id)}, {}, settingsAt(op))
                                     ->outputs()[0];
    parts_[key(assigned, parts.domain)] = fresh;
    replaceResult(old, assigned);
  }

  // `fresh` replaces `old` and, at the end, gets its id.
  void replaceResult(TensorIndex old, TensorIndex fresh) {
    main_.replaceTensor(old, fresh);
    names_.emplace_back(fresh, main_.tensor(old).id);
  }

  void addUpParts(Op &op, const ReplicaGrouping &domain) {
    const Op &sum = *again(op, {partOf(op.inputs()[0], domain, op)}, "___partial");
    const TensorIndex all = main_
                                .addConnectedOp(opDef("ReplicatedAllReduce"), {sum.outputs()[0]},
                                                {main_.freeId(op.outId(0))}, overGroup(domain, "Add"), settingsAt(op))
                                ->outputs()[0];
    replaced_.push_back(op.index());
    replaceResult(op.outputs()[0], all);
  }

  // ---- state that sums gradients over micro-batches, and that replicas reduce after the last one
  void findLateReductions() {
    for (Op *op : order_)
      if (isUpdate(*op) && isCollective(*op) && op->modifiesInput(0))
        if (const TensorIndex variable = variableOf(main_, op->inputs()[0]); inParts(variable))
          lateReductions_[variable] = op;
  }

  // In parts it sums values that are already reduced over the replicas. An accumulator is zero before. Other state is
  // equal on all replicas, and each of them contributes it, so a sum would contain it once per replica; so they are
  // reduced to means, which are multiplied at the end.
  std::vector<TensorIndex> lateReductionOperands(const Op &op, const Parts &parts) {
    if (op.settings.executionContext == ExecutionContext::AccumulateOuterFragment || !op.modifiesInput(0)) return {};
    const TensorIndex variable = variableOf(main_, op.inputs()[0]);
    const auto found = lateReductions_.find(variable);
    if (found == lateReductions_.end()) return {};
    const Op &reduction = *found->second;
    const std::string join = isAccumulator(main_.tensor(variable)) ? reduction.attrString("op") : "Mean";
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs()) {
      const bool isGradient = t.valid() && !inParts(t) && wholeShape(t) == parts.whole;
      inputs.push_back(isGradient   ? reduce(t, reduction, join, parts.domain, op)
                       : inParts(t) ? partOf(t, parts.domain, op)
                                    : t);
    }
    return inputs;
  }

  TensorIndex reduce(TensorIndex t, const Op &reduction, const std::string &join, const ReplicaGrouping &domain,
                     const Op &near) {
    const TensorId name = main_.tensor(t).id;
    if (isOver(reduction, domain)) return reduceScatter(t, domain, join, near, name);
    Attributes attributes = reduction.attributes();
    attributes.set("op", join);
    const TensorIndex joined = main_
                                   .addConnectedOp(opDef("ReplicatedAllReduce"), {t},
                                                   {main_.freeId(name + "___reduced")}, attributes, settingsAt(near))
                                   ->outputs()[0];
    return takePart(main_, joined, domain, settingsAt(near));
  }

  void endReduction(Op &op) {
    const TensorIndex t = op.inputs()[0], variable = variableOf(main_, t);
    const Parts parts = inParts_.at(t);
    TensorIndex part = parts_.at(key(t, parts.domain));
    if (!isAccumulator(main_.tensor(variable)) && op.attrString("op") == "Add")
      part = main_
                 .addConnectedOp(opDef("AccumulatorScale"), {part}, {main_.freeId(op.outId(0) + "___shard")},
                                 {{"factor", static_cast<float>(op.attrInt("group_size"))}}, settingsAt(op))
                 ->outputs()[0];
    replaced_.push_back(op.index());
    setParts(op.outputs()[0], parts, part);
  }

  // ---- remaining work
  void keepAnchor(const TensorId &id) {
    const TensorIndex t = main_.find(id);
    if (!inParts(t) || !main_.tensor(t).hasProducer()) return;
    replaceResult(t, wholeOf(t, *main_.tensor(t).getProducer()));
  }

  // This frees the ids of their results.
  void eraseReplaced() {
    for (size_t i = replaced_.size(); i-- > 0;) main_.eraseOpAndOutputs(replaced_[i]);
    for (const auto &[t, id] : names_) main_.renameTensor(t, id);
    replaced_.clear();
    names_.clear();
  }

  // A sum over all elements of a tensor that is otherwise needed only in parts.
  void shardSum(OpIndex sum, const Shardings &shardings) {
    if (!main_.alive(sum)) return;
    Op &op = main_.op(sum);
    const TensorIndex t = op.inputs()[0];
    const std::optional<ReplicaGrouping> domain = partsAreThere(t, shardings);
    const bool onlySums =
        std::ranges::all_of(main_.tensor(t).uses(), [&](const Use &use) { return updates_.sums.count(use.op) > 0; });
    if (!domain || !onlySums || anchors_.count(main_.tensor(t).id)) return;
    addUpParts(op, *domain);
  }

  // The replicas over which a tensor is divided, if it has parts already or is computed only from such tensors.
  std::optional<ReplicaGrouping> partsAreThere(TensorIndex t, const Shardings &shardings) const {
    const Op *producer = main_.tensor(t).getProducerUnsafe();
    if (!producer || !isUpdate(*producer)) return std::nullopt;
    for (const auto &[id, sharding] : shardings)
      if (parts_.count(key(t, sharding.domain))) return sharding.domain;
    if (hasEffect(*producer) || !worksOnParts(*producer, main_.info(t).shape())) return std::nullopt;
    std::optional<ReplicaGrouping> domain;
    for (const TensorIndex input : producer->inputs())
      if (input.valid() && main_.info(input).nelms() > 1 && !(domain = partsAreThere(input, shardings)))
        return std::nullopt;
    return domain;
  }

  // If the whole result of the reduction is needed too, its parts are slices of it.
  void keepOneReduction(OpIndex reduction, OpIndex scatter) {
    if (!main_.alive(reduction) || !main_.alive(scatter)) return;
    const TensorIndex whole = main_.op(reduction).outputs()[0];
    const std::vector<Use> uses = main_.tensor(whole).uses();
    const bool isNeeded = anchors_.count(main_.tensor(whole).id) > 0 ||
                          !std::ranges::all_of(uses, [&](const Use &use) { return updates_.resets.count(use.op) > 0; });
    if (isNeeded) {
      main_.connectInput(scatter, 0, whole);
      main_.op(scatter).mutableAttributes().set("op", std::string("Local"));
      return;
    }
    for (const Use &use : uses) main_.replaceUse(use, main_.op(reduction).inputs()[0]);
    main_.eraseOpAndOutputs(reduction);
  }

  Graph &main_;
  const ShardRules &rules_;
  const WeightUpdates &updates_;
  const std::set<TensorId> &anchors_;
  const std::vector<Op *> order_;
  std::map<TensorIndex, Parts> inParts_;                                    // tensors that exist in parts only
  std::map<Key, TensorIndex> parts_;                                        // parts of these and of whole tensors
  std::map<std::pair<TensorIndex, ExecutionContext>, TensorIndex> wholes_;  // of tensors in parts
  std::map<TensorIndex, const Op *> lateReductions_;                        // by variable
  std::vector<std::pair<OpIndex, OpIndex>> scatters_;  // reductions, and the scatters that replace them
  std::vector<OpIndex> replaced_;
  std::vector<std::pair<TensorIndex, TensorId>> names_;  // ids that results take over
};

}  // namespace

Shardings shardState(Graph &main, const ShardRules &rules, const WeightUpdates &updates,
                     const std::set<TensorId> &anchors) {
  return Sharder(main, rules, updates, anchors).run();
}

}  // namespace popart::transforms
