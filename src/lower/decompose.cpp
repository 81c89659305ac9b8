// Expands composite ops, and simplifies functional graphs (identities, pairs of inverse ops, common subexpressions,
// dead code).
#include "lower/decompose.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "ir/decomposed.hpp"
#include "lower/channels_last.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/widen.hpp"
#include "ops/shape/slice_range.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

void replaceByInput(Graph &graph, Op &op, TensorIndex input) {
  graph.replaceTensor(op.outputs()[0], input);
  graph.eraseOpAndOutputs(op.index());
}

// Neg(Neg(x)) → x; Transpose(Transpose(x)) → Transpose(x), or x when the axes are back in order.
void shortenPair(Graph &graph, Op &op) {
  const bool isTranspose = op.is(Role::Transpose);
  if (!isTranspose && !op.is(Role::Neg)) return;
  const Op *first = graph.tensor(op.inputs()[0]).getProducerUnsafe();
  if (!first || &first->def() != &op.def()) return;
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

// Slice(Slice(x)) → Slice(x), if nothing else reads the first.
void joinSlices(Graph &graph, Op &op) {
  const Op *first = op.inputCount() == 1 && op.hasInput(0) ? op.inTensor(0)->getProducerUnsafe() : nullptr;
  auto both = first ? ops::sliceOfSlice(*first, op) : std::nullopt;
  if (!both) return;
  const Tensor &between = *op.inTensor(0), &x = *first->inTensor(0);
  const bool isUpdated = x.tensorType() == TensorType::Variable;  // the update may run before readers of this slice
  if (between.uses().size() != 1 || between.isGraphOutput() || isUpdated || staysApart(*first, op)) return;
  op.mutableAttributes() = std::move(*both);
  graph.connectInput(op.index(), 0, x.index());
}

// Cast(Cast(x)) → x from 16 bits to FLOAT and back, which is exact; Cast(Transpose(Cast(x))) → Transpose(x).
void moveNarrow(Graph &graph, Op &narrowing) {
  if (!narrowing.has(Trait::Conversion) || !isHalf(narrowing.outInfo(0).dataType())) return;
  const auto widenedFrom = [&](const Op *op) {
    const bool widens = op && op->has(Trait::Conversion) && op->outInfo(0).dataType() == DataType::FLOAT &&
                        op->inInfo(0).dataType() == narrowing.outInfo(0).dataType();
    return widens ? op->inputs()[0] : TensorIndex();
  };
  const Op *middle = graph.tensor(narrowing.inputs()[0]).getProducerUnsafe();
  if (const TensorIndex x = widenedFrom(middle); x.valid()) return replaceByInput(graph, narrowing, x);
  if (!middle || !middle->is(Role::Transpose)) return;
  const TensorIndex x = widenedFrom(graph.tensor(middle->inputs()[0]).getProducerUnsafe());
  if (!x.valid()) return;
  const Op *moved = graph.addConnectedOp(middle->def(), {x}, {graph.freeId(narrowing.outId(0) + "/narrow")},
                                         middle->attributes(), inheritSettings(*middle, graph));
  replaceByInput(graph, narrowing, moved->outputs()[0]);
}

// Add(x, DynamicSliceGrad(g, at)) → DynamicAdd(x, at, g): outside of the window the gradient is zero.
void addIntoWindow(Graph &graph, Op &op) {
  if (!op.is(Role::Add)) return;
  for (const int i : {1, 0}) {
    const TensorIndex part = op.inputs()[static_cast<size_t>(i)], x = op.inputs()[static_cast<size_t>(1 - i)];
    const Tensor &tensor = graph.tensor(part);
    Op *window = tensor.getProducerUnsafe();
    if (!window || !window->is(Role::DynamicSliceGrad) || tensor.uses().size() != 1 || tensor.isGraphOutput() ||
        graph.info(x).shape() != op.outShape(0))
      continue;
    Attributes attributes;
    for (const char *name : {"axes", "sizes"}) attributes.set(name, window->attrInts(name));
    const TensorId id = op.outId(0);
    graph.renameTensor(op.outputs()[0], graph.freeId(id + "/replaced"));
    const Op *sum = graph.addConnectedOp(opDef("DynamicAdd"), {x, window->inputs()[1], window->inputs()[0]}, {id},
                                         std::move(attributes), inheritSettings(op, graph));
    graph.replaceTensor(op.outputs()[0], sum->outputs()[0]);
    graph.moveConstraints(op.index(), sum->index());
    graph.eraseOpAndOutputs(op.index());
    return graph.eraseOpAndOutputs(window->index());
  }
}

bool mergeable(const Op &op) {
  const bool isWritten = op.has(Trait::Init) && op.has(Trait::NeverFolded);  // a shared one would be copied for each
  return !isWritten && !op.has(Trait::SideEffect) && !op.has(Trait::Random) && !op.has(Trait::HostIo) &&
         !op.has(Trait::Call) && !op.isUserOp() && op.outputCount() > 0;
}

// Recomputed copies equal their originals intentionally; merging them would keep the original's result in memory.
void mergeEqual(Graph &graph) {
  std::map<std::tuple<const OpDef *, bool, std::vector<TensorIndex>>, std::vector<Op *>> seen;
  for (OpIndex o : schedule::orderOps(graph)) {
    Op &op = graph.op(o);
    if (!mergeable(op)) continue;
    const bool isCopy = op.settings.recomputeType == RecomputeType::Recomputed;
    auto &candidates = seen[{&op.def(), isCopy, op.inputs()}];
    Op *same = nullptr;
    for (Op *c : candidates)
      if (c->attributes() == op.attributes() && c->outputCount() == op.outputCount()) same = c;
    if (!same) {
      candidates.push_back(&op);
      continue;
    }
    for (int i = 0; i < op.outputCount(); ++i) {
      if (op.hasOutput(i) && same->hasOutput(i)) graph.replaceTensor(op.outputs()[i], same->outputs()[i]);
    }
  }
}

// Whether the op, or an op of a graph that it runs, has effects other than its results.
bool hasEffects(const Op &op) {
  if (op.hasSideEffect() || op.has(Trait::HostIo)) return true;
  for (const Graph *called : op.getCalledGraphs())
    for (const Op *inner : called->ops())
      if (hasEffects(*inner)) return true;
  return false;
}

// A matrix product with a non-constant operand reads its transposed operand through strides.
bool readByProductsOnly(const Graph &graph, const Op &transpose) {
  const Tensor &out = graph.tensor(transpose.outputs()[0]);
  if (out.isGraphOutput() || out.uses().empty()) return false;
  return std::all_of(out.uses().begin(), out.uses().end(), [&](const Use &use) {
    const Op &reader = graph.op(use.op);
    return reader.is(Role::MatMul) && std::any_of(reader.inputs().begin(), reader.inputs().end(), [&](TensorIndex t) {
             return t != out.index() && graph.tensor(t).tensorType() != TensorType::Const;
           });
  });
}

// Transposes that no product absorbs, and the ops that read their results.
std::optional<FoldSize> largeTranspose(const Graph &graph, const Op &op, const std::set<TensorIndex> &folded) {
  if (op.is(Role::Transpose)) return readByProductsOnly(graph, op) ? std::nullopt : std::optional(FoldSize::Required);
  const bool follows =
      std::any_of(op.inputs().begin(), op.inputs().end(), [&](TensorIndex t) { return folded.count(t); });
  return follows ? std::optional(FoldSize::WithinBudget) : std::nullopt;
}

// Removes statistics of a batch that nothing reads. Without new running statistics the old ones, which the row
// requires, are not read either; the scale, which has the same shape, replaces them, so that ops that compute them can
// be removed.
void dropUnreadStatistics(Graph &graph, Op &op) {
  enum { kScale = 1, kMean = 3, kVariance = 4 };
  if (!op.is(Role::BatchNormalization) || op.attrInt("training_mode") == 0) return;
  for (int i = 1; i < op.outputCount(); ++i) {
    if (!op.hasOutput(i) || !op.outTensor(i)->uses().empty() || op.outTensor(i)->isGraphOutput()) continue;
    const TensorIndex unread = op.outputs()[static_cast<size_t>(i)];
    graph.disconnectOutput(op.index(), i);
    graph.eraseTensor(unread);
  }
  if (op.hasOutput(1) || op.hasOutput(2)) return;
  for (const int i : {kMean, kVariance}) graph.connectInput(op.index(), i, op.inputs()[kScale]);
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
    if (!used) graph.eraseOpAndOutputs(op.index());
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
        if (op->def().hasDecomposition() && !hasKernel(*op, backend)) replaceByDecomposition(*graph, *op);
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
  for (Graph *graph : flat.getAllGraphs())
    foldOps(*graph, evaluate, [&](const Op &op, const auto &folded) { return largeTranspose(*graph, op, folded); });
}

void simplify(Ir &flat) {
  for (Graph *graph : flat.getAllGraphs()) {
    for (OpIndex o : schedule::orderOps(*graph)) {
      Op &op = graph->op(o);
      if (op.outputCount() == 1 && !op.hasSideEffect() && op.isIdentity()) replaceByInput(*graph, op, op.inputs()[0]);
    }
    for (OpIndex o : schedule::orderOps(*graph))
      if (graph->alive(o)) moveNarrow(*graph, graph->op(o));
    for (OpIndex o : schedule::orderOps(*graph)) {
      shortenPair(*graph, graph->op(o));
      if (graph->alive(o)) joinSlices(*graph, graph->op(o));
    }
    for (OpIndex o : schedule::orderOps(*graph))
      if (graph->alive(o)) addIntoWindow(*graph, graph->op(o));
    mergeEqual(*graph);
    for (Op *op : graph->ops()) dropUnreadStatistics(*graph, *op);
    removeUnused(*graph);
  }
}

}  // namespace popart::lower
