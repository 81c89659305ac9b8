// Reverse walk over one graph. First, tensors that depend on a target are marked, so that only gradients that reach a
// target are built. Then the ops are visited in reverse schedule order. The gradient rule of an op computes
// contributions to the gradients of its inputs from the gradients of its outputs. After the first consumer of a tensor
// in schedule order was visited, all its contributions are known, and one Sum op adds them.
#include "autodiff/backward_walk.hpp"

#include <algorithm>
#include <unordered_set>

#include <popart/ir.hpp>

#include "autodiff/loop_gradient.hpp"
#include "ir/decomposed.hpp"
#include "ir/layer_names.hpp"
#include "ir/print_hints.hpp"
#include "ops/control/loops.hpp"

namespace popart::autodiff {
namespace {

class Walker {
 public:
  explicit Walker(const BackwardWalk &walk)
      : walk_(walk), fwd_(walk.forward), grad_(walk.gradient), starts_(walk.starts), targets_(walk.targets) {}

  std::vector<TensorIndex> run() {
    std::vector<Op *> schedule = fwd_.getOpSchedule();
    markActive(schedule);
    while (expandGradientOps(schedule)) {
      schedule = fwd_.getOpSchedule();
      markActive(schedule);
    }
    const size_t firstNew = grad_.opSlots();
    markFirstConsumers(schedule);
    for (auto [forward, given] : starts_) {
      slot(forward).parts.push_back(given);
      slot(forward).startParts++;
      named_.insert(given.value);
    }
    for (size_t i = schedule.size(); i-- > 0;) {
      for (TensorIndex out : schedule[i]->outputs())
        if (out.valid()) finish(out, inheritSettings(*schedule[i], grad_, kGradientSuffix));
      visit(*schedule[i]);
      for (TensorIndex in : schedule[i]->inputs())
        if (in.valid() && slot(in).firstConsumer == i)
          finish(in, inheritSettings(*schedule[i], grad_, kGradientSuffix));
    }
    std::vector<TensorIndex> result;
    for (TensorIndex target : targets_) {
      finish(target, Op::Settings(grad_));
      result.push_back(slot(target).sum);
    }
    // Gradient ops come after the forward pass, in order of creation, not at the places of their forward ops. Marks for
    // keeping and recomputation are for results of the forward pass.
    for (size_t i = firstNew; i < grad_.opSlots(); ++i)
      if (const OpIndex o{static_cast<uint32_t>(i)}; grad_.alive(o)) {
        grad_.op(o).settings.sequence = -1;
        grad_.op(o).settings.recomputeType = RecomputeType::Undefined;
      }
    return result;
  }

 private:
  struct Slot {
    bool active = false;  // depends on a target
    size_t firstConsumer = SIZE_MAX;
    size_t startParts = 0;           // number of `parts` that are given
    std::vector<TensorIndex> parts;  // contributions, in the order in which they were found
    TensorIndex sum;                 // the whole gradient
  };

  // Gradients are floating point; for integer targets they are integers.
  bool carriesGradient(TensorIndex t) const {
    const DataType type = fwd_.info(t).dataType();
    if (isFloatingPoint(type) || !isInteger(type)) return isFloatingPoint(type);
    return std::ranges::any_of(starts_,
                               [&](const auto &start) { return isInteger(fwd_.info(start.first).dataType()); });
  }

  Slot &slot(TensorIndex t) {
    if (t.value >= slots_.size()) slots_.resize(std::max<size_t>(fwd_.tensorSlots(), t.value + 1));
    return slots_[t.value];
  }

  void markActive(const std::vector<Op *> &schedule) {
    for (TensorIndex t : targets_) slot(t).active = carriesGradient(t);
    for (Op *op : schedule) {
      if (op->def().cutsGradient()) continue;
      const bool reached = std::any_of(op->inputs().begin(), op->inputs().end(),
                                       [&](TensorIndex t) { return t.valid() && slot(t).active; });
      if (!reached) continue;
      for (TensorIndex t : op->outputs())
        if (t.valid() && carriesGradient(t)) slot(t).active = true;
    }
  }

  // Gradient ops on the path that have no rule are replaced by their decompositions. Returns whether there was
  // one.
  bool expandGradientOps(const std::vector<Op *> &schedule) {
    const auto isOpen = [&](const Op *op) {
      const OpDef &def = op->def();
      return op->has(Trait::Gradient) && !def.hasVjp() && !def.cutsGradient() && def.hasDecomposition() &&
             std::ranges::any_of(op->inputs(), [&](TensorIndex t) { return t.valid() && slot(t).active; });
    };
    if (std::ranges::none_of(schedule, isOpen)) return false;
    std::vector<bool> needed(fwd_.tensorSlots());
    for (const auto &start : starts_) needed[start.first.value] = true;
    bool any = false;
    for (size_t i = schedule.size(); i-- > 0;) {
      Op &op = *schedule[i];
      const auto isNeeded = [&](TensorIndex t) { return t.valid() && needed[t.value]; };
      if (op.def().cutsGradient() || std::ranges::none_of(op.outputs(), isNeeded)) continue;
      for (TensorIndex t : op.inputs())
        if (t.valid()) needed[t.value] = true;
      if (!isOpen(&op)) continue;
      any = true;
      expand(op);
    }
    return any;
  }

  // Replaces `op` by its decomposition; the results keep their ids.
  void expand(Op &op) {
    const size_t firstNew = fwd_.tensorSlots();
    const std::vector<TensorIndex> before = op.outputs();
    std::vector<TensorId> ids;
    for (TensorIndex t : before) ids.push_back(t.valid() ? fwd_.tensor(t).id : TensorId());
    const std::vector<TensorIndex> after = replaceByDecomposition(fwd_, op);
    for (size_t o = 0; o < before.size(); ++o) {
      if (!before[o].valid()) continue;
      for (auto &start : starts_)
        if (start.first == before[o]) start.first = after[o];
      std::ranges::replace(targets_, before[o], after[o]);
      if (after[o].value >= firstNew) fwd_.renameTensor(after[o], ids[o]);
    }
  }

  void markFirstConsumers(const std::vector<Op *> &schedule) {
    for (size_t i = schedule.size(); i-- > 0;)
      for (TensorIndex t : schedule[i]->inputs())
        if (t.valid()) slot(t).firstConsumer = i;
  }

  // Joins the contributions to `forward` found so far.
  void finish(TensorIndex forward, const Op::Settings &settings) {
    Slot &s = slot(forward);
    if (s.sum.valid() || s.parts.empty() || !s.active) return;
    if (s.parts.size() == 1 && s.startParts == 1) {
      s.sum = s.parts[0];
      return;
    }
    const TensorId id = gradientId(fwd_, grad_, fwd_.tensor(forward).id);
    if (TensorIndex taken = grad_.find(id); taken.valid()) {
      // A given tensor, or the result of a called gradient graph, is renamed: the whole gradient gets the plain
      // name.
      const bool given = s.startParts > 0 && taken == s.parts[0];
      const bool ofCall = grad_.tensor(taken).hasProducer() && !finished_.count(taken.value);
      if (given || ofCall) grad_.renameTensor(taken, grad_.uniqueId(id));
    }
    Op *sum = grad_.addConnectedOp(opDef("Sum"), s.parts, {grad_.uniqueId(id)}, {}, settings);
    s.sum = sum->outputs()[0];
    named_.insert(s.sum.value);
    finished_.insert(s.sum.value);
  }

  void visit(Op &op) {
    std::vector<TensorIndex> gradOuts;
    bool any = false;
    for (TensorIndex t : op.outputs()) {
      gradOuts.push_back(t.valid() ? slot(t).sum : TensorIndex{});
      any |= gradOuts.back().valid();
    }
    if (!any || op.def().cutsGradient()) return;
    std::vector<bool> wanted;
    bool wantsAny = false;
    for (TensorIndex t : op.inputs()) {
      wanted.push_back(t.valid() && slot(t).active);
      wantsAny |= wanted.back();
    }
    if (!wantsAny) return;
    ops::requireCalledInputs(op);
    if (op.is(Role::Call))
      differentiateCall(op, gradOuts, wanted);
    else if (op.is(Role::Loop))
      differentiateLoopOp(op, gradOuts, wanted);
    else if (op.is(Role::If))
      differentiateIf(op, gradOuts, wanted);
    else if (op.def().hasVjp())
      applyRule(op, gradOuts, wanted);
    else
      applyUserGradients(op, gradOuts, wanted);
  }

  void applyRule(Op &op, const std::vector<TensorIndex> &gradOuts, const std::vector<bool> &wanted) {
    VjpBuilder builder(grad_, op, walk_.activation, gradOuts, wanted);
    op.def().vjpRule()(builder);
    for (int i = 0; i < static_cast<int>(builder.grads().size()); ++i)
      if (builder.grads()[i].valid() && wanted[i]) contribute(op, i, builder.grads()[i]);
  }

  void applyUserGradients(Op &op, const std::vector<TensorIndex> &gradOuts, const std::vector<bool> &wanted) {
    std::vector<std::unique_ptr<Op>> gradOps = op.getGradOps();
    if (gradOps.empty()) {
      const std::string &reason = op.def().noGradReason();
      throw error(
          "Autodiff '{}': no gradient can be taken through this op: {}. Detach its inputs or leave it out of the path "
          "to the loss.",
          op.debugName(), reason.empty() ? "it defines none" : reason);
    }
    for (auto &gradOp : gradOps) addUserGradient(op, std::move(gradOp), gradOuts, wanted);
  }

  void addUserGradient(Op &op, std::unique_ptr<Op> made, const std::vector<TensorIndex> &gradOuts,
                       const std::vector<bool> &wanted) {
    const std::vector<GradInOutMapper> sources = made->gradInputInfo();
    const std::map<int, int> results = made->gradOutToNonGradIn();
    const bool useful = std::any_of(results.begin(), results.end(), [&](auto &r) {
      return r.second >= 0 && r.second < static_cast<int>(wanted.size()) && wanted[r.second];
    });
    if (!useful) return;
    made->settings.graph = &grad_;
    Op *gradOp = grad_.addOp(std::move(made));
    for (const GradInOutMapper &source : sources)
      if (TensorIndex t = userGradientInput(op, source, gradOuts); t.valid())
        grad_.connectInput(gradOp->index(), source.iGrad, t);
    for (auto [output, input] : results) {
      const std::string name = "Gradient___" + std::to_string(op.id) + "_" + std::to_string(input);
      grad_.createOutput(gradOp->index(), output, grad_.uniqueId(grad_.addScope(name)));
    }
    gradOp->setup();
    for (auto [output, input] : results)
      if (input < static_cast<int>(wanted.size()) && wanted[input]) contribute(op, input, gradOp->outputs()[output]);
  }

  TensorIndex userGradientInput(Op &op, const GradInOutMapper &source, const std::vector<TensorIndex> &gradOuts) {
    const int i = source.iNonGrad;
    switch (source.type) {
      case GradOpInType::In:
        return op.hasInput(i) ? walk_.activation(op.inputs()[i]) : TensorIndex{};
      case GradOpInType::Out:
        return op.hasOutput(i) ? walk_.activation(op.outputs()[i]) : TensorIndex{};
      case GradOpInType::GradOut:
        if (!op.hasOutput(i)) return {};
        return gradOuts[i].valid() ? gradOuts[i] : addZeros(grad_, op.outInfo(i));
    }
    return {};
  }

  static std::vector<bool> whichGiven(const std::vector<TensorIndex> &gradOuts) {
    std::vector<bool> given;
    for (TensorIndex t : gradOuts) given.push_back(t.valid());
    return given;
  }

  // If(condition, then, else) -> If(condition, gradient of then, gradient of else): each branch returns a gradient for
  // every requested input of both branches, zeros for the inputs of the other one.
  void differentiateIf(Op &op, const std::vector<TensorIndex> &gradOuts, const std::vector<bool> &wanted) {
    Ir &ir = fwd_.getIr();
    std::vector<int> results;  // inputs of the op whose gradients the branches return
    for (int i = 1; i < op.inputCount(); ++i)
      if (wanted[i]) results.push_back(i);
    std::vector<TensorIndex> inputs = {walk_.activation(op.inputs()[0])};
    Attributes branches;
    int first = 1;
    for (const char *branch : {"then_branch", "else_branch"}) {
      Graph &forward = ir.getGraph(op.attributes().getAttribute<GraphRef>(branch).id);
      const GradInfo info = walk_.calledGradient(forward, {whichGiven(gradOuts), {}});
      for (const ExpectedConnection &c : info.expectedInputs)
        inputs.push_back(calledGradientInput(op, forward, c, gradOuts, first));
      branches.set(branch, GraphRef{branchGradient(op, info, results, first).id});
      first += static_cast<int>(forward.inputs().size());
    }
    std::vector<TensorId> outputIds;
    for (int i : results)
      outputIds.push_back(
          grad_.uniqueId(grad_.addScope("Gradient___" + std::to_string(op.id) + "_" + std::to_string(i))));
    Op::Settings settings = inheritSettings(op, grad_, kGradientSuffix);
    settings.hints[kGradientCallHint] = "1";
    Op *made = grad_.addConnectedOp(opDef("If"), inputs, outputIds, std::move(branches), settings);
    for (size_t r = 0; r < results.size(); ++r) {
      named_.insert(made->outputs()[r].value);
      contribute(op, results[r], made->outputs()[r]);
    }
  }

  // A wrapper of the gradient graph of one branch, whose forward inputs are the inputs `first`… of the If op.
  Graph &branchGradient(const Op &op, const GradInfo &info, const std::vector<int> &results, int first) {
    Ir &ir = fwd_.getIr();
    const Graph &forward = ir.getGraph(info.forward);
    const Graph &backward = ir.getGraph(info.gradient);
    Graph &graph = ir.createGraph(ir.createUniqueSubgraphId(info.gradient));
    std::vector<TensorIndex> inputs;
    for (TensorIndex t : backward.inputs()) {
      const TensorId id = graph.addScope(backward.removeScope(backward.tensor(t).id));
      inputs.push_back(graph.addInput(graph.uniqueId(id), backward.info(t)));
    }
    std::vector<TensorId> outputIds;
    for (const TensorId &id : backward.getOutputIds())
      outputIds.push_back(graph.uniqueId(graph.addScope(backward.removeScope(id))));
    Op *call = outputIds.empty()
                   ? nullptr
                   : graph.addConnectedOp(opDef("Call"), inputs, outputIds, {{"callee", GraphRef{info.gradient}}},
                                          inheritSettings(op, graph, kGradientSuffix));
    for (int i : results) {
      TensorIndex gradient;
      const int own = i - first;
      if (own >= 0 && own < static_cast<int>(forward.inputs().size()))
        for (size_t o = 0; o < info.expectedOutputs.size(); ++o)
          if (forward.find(info.expectedOutputs[o].fwdId) == forward.inputs()[own]) gradient = call->outputs()[o];
      graph.markOutput(gradient.valid() ? gradient : addZeros(graph, op.inInfo(i)));
    }
    return graph;
  }

  void differentiateLoopOp(Op &op, const std::vector<TensorIndex> &gradOuts, const std::vector<bool> &wanted) {
    const std::vector<TensorIndex> gradients =
        differentiateLoop({op, grad_, gradOuts, wanted, walk_.activation, walk_.calledGradient});
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].valid()) continue;
      named_.insert(gradients[i].value);
      contribute(op, static_cast<int>(i), gradients[i]);
    }
  }

  // Call(callee) -> Call(gradient graph of callee)
  void differentiateCall(Op &op, const std::vector<TensorIndex> &gradOuts, const std::vector<bool> &wanted) {
    const std::vector<Graph *> called = op.getCalledGraphs();
    if (called.size() != 1)
      throw internal_error("Autodiff '{}': a Call op names one graph: got {}.", op.debugName(), called.size());
    const GradInfo info = walk_.calledGradient(*called[0], {whichGiven(gradOuts), {}});
    Ir &ir = fwd_.getIr();
    const Graph &callee = ir.getGraph(info.forward);
    const Graph &backward = ir.getGraph(info.gradient);
    std::vector<TensorIndex> inputs;
    for (const ExpectedConnection &c : info.expectedInputs)
      inputs.push_back(calledGradientInput(op, callee, c, gradOuts, 0));
    std::vector<TensorId> outputIds;
    for (const TensorId &id : backward.getOutputIds())
      outputIds.push_back(grad_.uniqueId(grad_.addScope(backward.removeScope(id))));
    Op::Settings settings = inheritSettings(op, grad_, kGradientSuffix);
    settings.hints[kGradientCallHint] = "1";
    Op *call = grad_.addConnectedOp(opDef("Call"), inputs, outputIds, {{"callee", GraphRef{info.gradient}}}, settings);
    for (size_t o = 0; o < info.expectedOutputs.size(); ++o) {
      const TensorIndex formal = callee.find(info.expectedOutputs[o].fwdId);
      for (int i = 0; i < op.inputCount() && i < static_cast<int>(callee.inputs().size()); ++i)
        if (callee.inputs()[i] == formal && i < static_cast<int>(wanted.size()) && wanted[i])
          contribute(op, i, call->outputs()[o]);
    }
  }

  // The operand of the gradient graph of `callee` for `c`; the inputs of `callee` are the inputs `first`… of `op`.
  TensorIndex calledGradientInput(Op &op, const Graph &callee, const ExpectedConnection &c,
                                  const std::vector<TensorIndex> &gradOuts, int first) {
    const TensorIndex formal = callee.find(c.fwdId);
    const auto &ins = callee.inputs();
    const auto &outs = callee.outputs();
    const size_t out = std::find(outs.begin(), outs.end(), formal) - outs.begin();
    if (c.type == ConnectionType::FwdGrad) {
      std::vector<TensorIndex> parts;  // one tensor may be several outputs
      for (size_t o = 0; o < outs.size() && o < gradOuts.size(); ++o)
        if (outs[o] == formal && gradOuts[o].valid()) parts.push_back(gradOuts[o]);
      return parts.empty() ? addZeros(grad_, callee.info(formal)) : addSum(grad_, parts, op);
    }
    const size_t in = std::find(ins.begin(), ins.end(), formal) - ins.begin();
    if (in < ins.size()) return walk_.activation(op.inputs().at(in + static_cast<size_t>(first)));
    if (out < outs.size()) return walk_.activation(op.outputs().at(out));
    throw error(
        "Autodiff '{}': the gradient graph of '{}' reads '{}', which is neither an input nor an output of that graph. "
        "Pass gradient information made by autodiff of this graph.",
        op.debugName(), callee.id, c.fwdId);
  }

  void contribute(const Op &op, int input, TensorIndex part) {
    const TensorIndex forward = op.inputs()[input];
    const TensorInfo &want = fwd_.info(forward), &got = grad_.info(part);
    if (want.shape() != got.shape() || want.dataType() != got.dataType())
      throw internal_error("Autodiff '{}': gradient of input {}: got {}, expected {}.", op.debugName(), input, got,
                           want);
    const TensorId id = grad_.addScope("Gradient___" + std::to_string(op.id) + "_" + std::to_string(input));
    if (grad_.tensor(part).hasProducer() && !op.is(Role::Call) && named_.insert(part.value).second &&
        grad_.tensor(part).id != id)
      grad_.renameTensor(part, grad_.uniqueId(id));
    slot(forward).parts.push_back(part);
  }

  const BackwardWalk &walk_;
  Graph &fwd_, &grad_;
  std::vector<std::pair<TensorIndex, TensorIndex>> starts_;  // those of the walk, after decompositions
  std::vector<TensorIndex> targets_;
  std::vector<Slot> slots_;
  std::unordered_set<uint32_t> named_;     // tensors of the gradient graph that have their final id
  std::unordered_set<uint32_t> finished_;  // whole gradients among them
};

}  // namespace

std::vector<TensorIndex> walkBackward(const BackwardWalk &walk) { return Walker(walk).run(); }

TensorId gradientId(const Graph &forward, const Graph &gradient, const TensorId &forwardId) {
  return gradient.addScope("Gradient___" + forward.removeScope(forwardId));
}

TensorIndex addZeros(Graph &graph, const TensorInfo &info) {
  return graph.addConstant(graph.uniqueId(graph.addScope("zeros")), TensorData(info));
}

TensorIndex addSum(Graph &graph, const std::vector<TensorIndex> &parts, const Op &origin) {
  if (parts.size() == 1) return parts[0];
  const TensorId id = graph.uniqueId(graph.addScope("gradient_sum"));
  return graph.addConnectedOp(opDef("Sum"), parts, {id}, {}, inheritSettings(origin, graph, kGradientSuffix))
      ->outputs()[0];
}

}  // namespace popart::autodiff
