// See update_chains.hpp. Ops belong to one chain if one reads elements of the other, or both use one variable.
#include "transforms/update_chains.hpp"

#include <algorithm>

#include <popart/ir.hpp>

#include "base/union_find.hpp"
#include "ir/hints.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"

namespace popart::transforms {
namespace {

using Kind = ChainOperand::Kind;

class ChainFinder {
 public:
  ChainFinder(const Graph &graph, int64_t firstUpdate, const std::set<TensorId> &alone)
      : graph_(graph), first_(firstUpdate), alone_(alone) {}

  std::vector<UpdateChain> run() {
    std::vector<UpdateChain> chains;
    for (const std::vector<Op *> &ops : connectedOps())
      if (UpdateChain chain = chainOf(ops); isMergeable(chain)) chains.push_back(std::move(chain));
    return chains;
  }

 private:
  bool isOptimizers(const Op &op) const { return int64_t{op.index().value} >= first_; }
  bool isVariable(TensorIndex t) const { return graph_.tensor(t).tensorType() == TensorType::Variable; }
  // Whether the tensor contains elements that the optimizer works on.
  bool carries(TensorIndex t) const {
    if (!t.valid() || graph_.info(t).nelms() < 2) return false;
    const Op *producer = graph_.tensor(t).getProducerUnsafe();
    return producer ? isOptimizers(*producer) : isVariable(t);
  }

  std::vector<std::vector<Op *>> connectedOps() const {
    UnionFind sets(graph_.opSlots() + graph_.tensorSlots());
    const auto setOf = [&](TensorIndex t) { return static_cast<uint32_t>(graph_.opSlots() + t.value); };
    std::vector<Op *> updates;
    for (Op *op : graph_.ops())
      if (isOptimizers(*op)) updates.push_back(op);
    for (const Op *op : updates)
      for (const auto &operands : {op->inputs(), op->outputs()})
        for (const TensorIndex t : operands)
          if (carries(t)) sets.join(op->index().value, setOf(t));
    std::map<uint32_t, size_t> places;
    std::vector<std::vector<Op *>> result;
    for (Op *op : updates) {
      const auto [place, fresh] = places.emplace(sets.find(op->index().value), result.size());
      if (fresh) result.emplace_back();
      result[place->second].push_back(op);
    }
    return result;
  }

  UpdateChain chainOf(const std::vector<Op *> &ops) const {
    UpdateChain chain;
    std::map<TensorIndex, ChainOperand> known;
    for (Op *op : ops) {
      ChainOp link{op, {}, ops::worksByElement(*op)};
      for (const TensorIndex t : op->inputs()) {
        const auto place = known.find(t);
        if (!t.valid()) {
          link.operands.push_back({});
        } else if (place != known.end()) {
          link.operands.push_back(place->second);
        } else if (graph_.info(t).nelms() < 2) {
          link.operands.push_back({graph_.tensor(t).isOptimizerState ? Kind::Own : Kind::Shared});
        } else if (isVariable(t)) {
          chain.elements = std::max(chain.elements, graph_.info(t).nelms());
          link.operands.push_back(known[t] = {Kind::Variable, chain.variables.size()});
          chain.variables.push_back(t);
          addPlaces(t, chain.places);
        } else {
          link.operands.push_back({Kind::Outside});
        }
      }
      for (const ChainOperand &operand : link.operands) link.merges &= operand.kind != Kind::Own;
      for (OutIndex o = 0; o < op->outputCount(); ++o)
        if (op->hasOutput(o)) known[op->outputs()[static_cast<size_t>(o)]] = {Kind::Result, chain.ops.size(), o};
      chain.ops.push_back(std::move(link));
    }
    // A number that the chain itself computes is specific to the chain.
    for (ChainOp &link : chain.ops)
      for (size_t i = 0; i < link.operands.size(); ++i)
        if (link.operands[i].kind == Kind::Result && graph_.info(link.op->inputs()[i]).nelms() < 2) link.merges = false;
    return chain;
  }

  void addPlaces(TensorIndex variable, std::set<UpdatePlace> &places) const {
    for (const Use &use : graph_.tensor(variable).uses())
      if (const Op &op = graph_.op(use.op); !isOptimizers(op))
        places.insert({op.settings.vgraphId, op.settings.pipelineStage, op.settings.executionPhase});
  }

  // Whether a kernel of the device reads the variable, or a view of it, in a special layout.
  bool isPacked(TensorIndex t) const {
    for (const Use &use : graph_.tensor(t).uses()) {
      const Op &op = graph_.op(use.op);
      if (isOptimizers(op)) continue;
      const OperandLayout layout = ops::operandLayouts(op).in[static_cast<size_t>(use.input)];
      if (layout == OperandLayout::Chosen || layout == OperandLayout::ChosenLast) return true;
      if (op.def().writeBackRule() && op.hasOutput(0) && isPacked(op.outputs()[0])) return true;
    }
    return false;
  }

  // Whether the result is the new value of a variable.
  bool isNewValue(const UpdateChain &chain, const ChainOperand &operand) const {
    const ChainOp &maker = chain.ops[operand.at];
    for (const AliasDef &alias : maker.op->def().aliasRules())
      if (alias.modifies && alias.output == operand.output) {
        const ChainOperand &source = maker.operands[static_cast<size_t>(alias.input)];
        return source.kind == Kind::Variable || (source.kind == Kind::Result && isNewValue(chain, source));
      }
    return false;
  }

  // Whether the operand is a variable that no merged op uses.
  static bool isOfSingleOps(const UpdateChain &chain, const ChainOperand &operand) {
    return operand.kind == Kind::Variable && std::ranges::none_of(chain.ops, [&](const ChainOp &link) {
             return link.merges && std::ranges::find(link.operands, operand) != link.operands.end();
           });
  }

  bool isMergeable(const UpdateChain &chain) const {
    if (std::ranges::none_of(chain.ops, &ChainOp::merges)) return false;
    for (const TensorIndex t : chain.variables) {
      const Tensor &variable = graph_.tensor(t);
      if (alone_.count(variable.id) || variable.isRemote || variable.info.nelms() != chain.elements || isPacked(t))
        return false;
    }
    return !chain.variables.empty() &&
           std::ranges::all_of(chain.ops, [&](const ChainOp &link) { return fits(chain, link); });
  }

  bool fits(const UpdateChain &chain, const ChainOp &link) const {
    const Op &op = *link.op;
    if (op.settings.hints.count(kSerialised) || op.def().isInplaceVariant()) return false;
    for (size_t i = 0; i < link.operands.size(); ++i) {
      const ChainOperand &operand = link.operands[i];
      if (!op.inputs()[i].valid() || graph_.info(op.inputs()[i]).nelms() < 2) continue;
      if (graph_.info(op.inputs()[i]).nelms() != chain.elements) return false;
      if (!link.merges && op.modifiesInput(static_cast<InIndex>(i)) && !isOfSingleOps(chain, operand)) return false;
      // Only variables may pass from the micro-batches to the update after the last one.
      if (operand.kind == Kind::Result && !isNewValue(chain, operand) &&
          chain.ops[operand.at].op->settings.executionContext != op.settings.executionContext)
        return false;
    }
    return true;
  }

  const Graph &graph_;
  const int64_t first_;
  const std::set<TensorId> &alone_;
};

// Whether two numbers are the same: one tensor, or constants of equal value.
bool sameNumber(const Graph &graph, TensorIndex t, TensorIndex u) {
  const Tensor &a = graph.tensor(t), &b = graph.tensor(u);
  if (t == u) return true;
  return a.tensorType() == TensorType::Const && b.tensorType() == TensorType::Const && a.info == b.info &&
         a.tensorData().asDoubles() == b.tensorData().asDoubles();
}

bool sameOp(const Graph &graph, const ChainOp &a, const ChainOp &b) {
  const Op &x = *a.op, &y = *b.op;
  if (&x.def() != &y.def() || x.attributes() != y.attributes() || x.settings.hints != y.settings.hints ||
      x.settings.executionContext != y.settings.executionContext || a.operands != b.operands || a.merges != b.merges ||
      x.outputs().size() != y.outputs().size())
    return false;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    const TensorIndex t = x.inputs()[i], u = y.inputs()[i];
    if (!t.valid()) continue;
    if (a.operands[i].kind == Kind::Shared ? !sameNumber(graph, t, u)
                                           : graph.info(t).dataType() != graph.info(u).dataType())
      return false;
  }
  return true;
}

}  // namespace

std::vector<UpdateChain> findUpdateChains(const Graph &graph, int64_t firstUpdate, const std::set<TensorId> &alone) {
  return ChainFinder(graph, firstUpdate, alone).run();
}

bool sameKind(const Graph &graph, const UpdateChain &a, const UpdateChain &b) {
  if (a.ops.size() != b.ops.size() || a.variables.size() != b.variables.size() || a.places != b.places) return false;
  for (size_t i = 0; i < a.ops.size(); ++i)
    if (!sameOp(graph, a.ops[i], b.ops[i])) return false;
  for (size_t i = 0; i < a.variables.size(); ++i) {
    const Tensor &t = graph.tensor(a.variables[i]), &u = graph.tensor(b.variables[i]);
    if (t.info.dataType() != u.info.dataType() || t.variableSettings != u.variableSettings) return false;
  }
  return true;
}

}  // namespace popart::transforms
