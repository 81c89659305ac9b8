// Expansion of composite rows, and clean-up of functional graphs (identities, pairs that undo each other, common
// subexpressions, dead ops).
#include "lower/decompose.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// Replaces op by what its row's decomposition builds. The new ops keep the op's place in program order.
void expand(Graph &graph, Op &op) {
  DecomposeBuilder builder(graph, op);
  op.def().decomposeRule()(builder);
  for (int o = 0; o < op.outputCount(); ++o) {
    if (!op.hasOutput(o)) continue;
    const TensorIndex old = op.outputs()[o], fresh = builder.results()[o];
    if (!fresh.valid()) throw internal_error("{}: its decomposition gives no tensor for output {}", op.debugName(), o);
    const TensorInfo &made = graph.info(fresh), &wanted = graph.info(old);  // meta shapes are facts of sharding
    if (made.dataType() != wanted.dataType() || made.shape() != wanted.shape())
      throw internal_error("{}: its decomposition gives {} for output {}, expected {}", op.debugName(), made, o,
                           wanted);
    graph.replaceUses(old, fresh);
    graph.replaceOutputs(old, fresh);
  }
  const std::vector<TensorIndex> outputs = op.outputs();
  graph.moveConstraints(op.index(), graph.tensor(builder.results()[0]).hasProducer()
                                        ? graph.tensor(builder.results()[0]).producerIndex()
                                        : op.index());
  graph.eraseOp(op.index());
  for (TensorIndex t : outputs)
    if (t.valid()) graph.eraseTensor(t);
}

void replaceByInput(Graph &graph, Op &op, TensorIndex input) {
  const TensorIndex out = op.outputs()[0];
  graph.replaceUses(out, input);
  graph.replaceOutputs(out, input);
  graph.eraseOp(op.index());
  graph.eraseTensor(out);
}

bool isIdentity(const Graph &graph, const Op &op) {
  if (op.inputCount() != 1 || op.outputCount() != 1 || !op.hasOutput(0) || op.isUserOp() || op.has(Trait::SideEffect))
    return false;
  const bool sameInfo = graph.info(op.inputs()[0]).dataType() == graph.info(op.outputs()[0]).dataType() &&
                        graph.info(op.inputs()[0]).shape() == graph.info(op.outputs()[0]).shape();
  if (!sameInfo) return false;
  return op.has(Trait::View) || op.is("Sum") || op.is("Nop") || op.is("Cast") || op.is("Concat") || op.is("Expand") ||
         op.is("ReduceSumTo");
}

// Neg(Neg(x)) → x; Transpose(Transpose(x)) → Transpose(x), or x when the axes are back in order.
void shortenPair(Graph &graph, Op &op) {
  const bool isTranspose = op.is("Transpose");
  if ((!isTranspose && !op.is("Neg")) || op.isUserOp()) return;
  const Op *first = graph.tensor(op.inputs()[0]).getProducerUnsafe();
  if (!first || first->def().base().type() != op.def().base().type()) return;
  const TensorIndex x = first->inputs()[0];
  if (!isTranspose) return replaceByInput(graph, op, x);
  auto axesOf = [](const Op &transpose) {
    std::vector<int64_t> perm = transpose.attributes().getAttribute<std::vector<int64_t>>("perm", {});
    if (perm.empty())
      for (int64_t axis = transpose.inRank(0); axis-- > 0;) perm.push_back(axis);
    return perm;
  };
  const std::vector<int64_t> inner = axesOf(*first), outer = axesOf(op);
  std::vector<int64_t> both;
  for (const int64_t axis : outer) both.push_back(inner[static_cast<size_t>(axis)]);
  if (std::is_sorted(both.begin(), both.end())) return replaceByInput(graph, op, x);
  op.mutableAttributes().set("perm", both);
  graph.connectInput(op.index(), 0, x);
}

bool mergeable(const Op &op) {
  return !op.has(Trait::SideEffect) && !op.has(Trait::Random) && !op.has(Trait::HostIo) && !op.has(Trait::Call) &&
         !op.isUserOp() && op.outputCount() > 0;
}

void mergeEqual(Graph &graph) {
  std::map<std::pair<std::string, std::vector<TensorIndex>>, std::vector<Op *>> seen;
  for (OpIndex o : schedule::orderOps(graph)) {
    Op &op = graph.op(o);
    if (!mergeable(op)) continue;
    auto &candidates = seen[{op.def().type(), op.inputs()}];
    Op *same = nullptr;
    for (Op *c : candidates)
      if (c->attributes() == op.attributes() && c->outputCount() == op.outputCount()) same = c;
    if (!same) {
      candidates.push_back(&op);
      continue;
    }
    for (int i = 0; i < op.outputCount(); ++i) {
      if (!op.hasOutput(i) || !same->hasOutput(i)) continue;
      graph.replaceUses(op.outputs()[i], same->outputs()[i]);
      graph.replaceOutputs(op.outputs()[i], same->outputs()[i]);
    }
  }
}

// Whether running the op is visible outside its results: by itself or by an op of a graph it runs.
bool hasEffects(const Op &op) {
  if (op.hasSideEffect() || op.has(Trait::HostIo)) return true;
  for (const Graph *called : op.getCalledGraphs())
    for (const Op *inner : called->ops())
      if (hasEffects(*inner)) return true;
  return false;
}

bool isUnusedConstant(const Tensor &tensor) {
  return tensor.tensorType() == TensorType::Const && tensor.uses().empty() && !tensor.hasProducer() &&
         !tensor.isGraphInput() && !tensor.isGraphOutput();
}

// A matrix product with a value that is not constant takes the transposed operand as it lies in memory.
bool readByProductsOnly(const Graph &graph, const Op &transpose) {
  const Tensor &out = graph.tensor(transpose.outputs()[0]);
  if (out.isGraphOutput() || out.uses().empty()) return false;
  return std::all_of(out.uses().begin(), out.uses().end(), [&](const Use &use) {
    const Op &reader = graph.op(use.op);
    return reader.is("MatMul") && std::any_of(reader.inputs().begin(), reader.inputs().end(), [&](TensorIndex t) {
             return t != out.index() && graph.tensor(t).tensorType() != TensorType::Const;
           });
  });
}

// In topological order, so that what reads a folded transpose is folded after it.
void foldTransposes(Graph &graph, const EvaluateOp &evaluate) {
  std::set<TensorIndex> folded;
  FoldBudget budget(graph);
  for (OpIndex o : schedule::orderOps(graph)) {
    Op &op = graph.op(o);
    const std::vector<TensorIndex> inputs = op.inputs(), outputs = op.outputs();
    const bool transpose = op.is("Transpose") && !op.isUserOp();
    const bool follows = std::any_of(inputs.begin(), inputs.end(), [&](TensorIndex t) { return folded.count(t) > 0; });
    if (transpose ? readByProductsOnly(graph, op) : !follows) continue;
    if (!foldOp(op, evaluate, budget, transpose ? FoldSize::Required : FoldSize::WithinBudget)) continue;
    folded.insert(outputs.begin(), outputs.end());
    for (TensorIndex t : inputs)
      if (t.valid() && graph.alive(t) && isUnusedConstant(graph.tensor(t))) {
        budget.giveBack(graph.tensor(t).tensorData().nbytes());
        graph.eraseTensor(t);
      }
  }
}

void removeUnused(Graph &graph) {
  const auto order = schedule::orderOps(graph);
  std::vector<char> isOutput(graph.tensorSlots(), 0);
  for (TensorIndex t : graph.outputs()) isOutput[t.value] = 1;
  for (size_t i = order.size(); i-- > 0;) {
    Op &op = graph.op(order[i]);
    if (hasEffects(op)) continue;
    bool used = false;
    for (TensorIndex t : op.outputs()) used |= t.valid() && (!graph.tensor(t).uses().empty() || isOutput[t.value]);
    if (used) continue;
    const std::vector<TensorIndex> outputs = op.outputs();
    graph.eraseOp(op.index());
    for (TensorIndex t : outputs)
      if (t.valid()) graph.eraseTensor(t);
  }
}

}  // namespace

void decompose(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs()) {
    std::vector<Op *> work = graph->ops();
    while (!work.empty()) {
      std::vector<Op *> fresh;
      const size_t before = graph->opSlots();
      for (Op *op : work) {
        std::string reason;
        if (op->def().hasDecomposition() && !backend.supports(*op, reason)) expand(*graph, *op);
      }
      for (size_t o = before; o < graph->opSlots(); ++o)
        if (graph->alive(OpIndex{static_cast<uint32_t>(o)}))
          fresh.push_back(&graph->op(OpIndex{static_cast<uint32_t>(o)}));
      work = std::move(fresh);
    }
  }
}

void foldLargeTransposes(Ir &flat, const EvaluateOp &evaluate) {
  if (!evaluate) return;
  for (Graph *graph : flat.getAllGraphs()) foldTransposes(*graph, evaluate);
}

void simplify(Ir &flat) {
  for (Graph *graph : flat.getAllGraphs()) {
    for (OpIndex o : schedule::orderOps(*graph))
      if (isIdentity(*graph, graph->op(o))) replaceByInput(*graph, graph->op(o), graph->op(o).inputs()[0]);
    for (OpIndex o : schedule::orderOps(*graph)) shortenPair(*graph, graph->op(o));
    mergeEqual(*graph);
    removeUnused(*graph);
  }
}

}  // namespace popart::lower
