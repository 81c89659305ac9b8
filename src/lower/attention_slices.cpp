// See attention_slices.hpp. SliceReader follows each operand to its sources, the tensors that it is a part of, and
// chooses one. SliceWriter follows each gradient to the Concat, and the result of the Concat through transposes and
// reshapes. From the last tensor back, each of these ops then gives the place of its operand in that tensor.
#include "lower/attention_slices.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "lower/attention_match.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "ops/fused/operand_view.hpp"
#include "ops/rules.hpp"
#include "ops/shape/strided_view.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

constexpr int kOperands = 3;
constexpr const char *kPermutations[kOperands] = {"perm_q", "perm_k", "perm_v"};
constexpr const char *kViews[kOperands] = {"view_q", "view_k", "view_v"};
constexpr const char *kResults[] = {"perm_dq", "perm_dk", "perm_dv"};
constexpr const char *kResultViews[] = {"view_dq", "view_dk", "view_dv"};
constexpr size_t kJoint = 3;  // output of FusedAttentionGrad

// Whether rows or columns of the matrices of a view are contiguous.
bool hasContiguousMatrices(const ops::OperandView &view) {
  return view.strides.back() == 1 || view.strides[view.strides.size() - 2] == 1;
}

bool isAttention(const Op &op) {
  static const OpDef &forward = opDef("FusedAttention"), &backward = opDef("FusedAttentionGrad");
  return &op.def() == &forward || &op.def() == &backward;
}

class SliceReader {
 public:
  SliceReader(Graph &graph, const executable::Backend &backend) : graph_(graph), backend_(backend) {}

  void run() {
    std::vector<OpIndex> attention;
    for (const OpIndex o : schedule::orderOps(graph_))
      if (isAttention(graph_.op(o))) attention.push_back(o);
    for (const OpIndex o : attention)
      for (int i = 0; i < kOperands; ++i) findSources(graph_.op(o).inputs()[static_cast<size_t>(i)]);
    chooseSources();
    for (const OpIndex o : attention) read(graph_.op(o));
    for (const auto &[operand, sources] : operands_)
      if (!sources.empty()) eraseUnread(operand);
  }

 private:
  struct Source {
    TensorIndex tensor;
    ops::OperandView view;  // of the operand's dimensions
  };

  // Finds the tensors that `operand` is a part of, the nearest first.
  void findSources(TensorIndex operand) {
    const auto [entry, isNew] = operands_.try_emplace(operand);
    if (!isNew || !isReadByAttentionOnly(operand)) return;
    if (graph_.info(operand).nelms() == 0) return;
    Source source{operand, ops::wholeOf(graph_.info(operand).shape())};
    while (const Op *op = graph_.tensor(source.tensor).getProducerUnsafe()) {
      if (op->outputCount() != 1 || op->inputCount() == 0 || isApart(*op, operand)) return;
      const TensorIndex from = op->inputs()[0];
      if (executable::isFreeView(*op)) {
        source.tensor = from;
        continue;
      }
      const auto of = ops::stridedView(*op);
      if (!of || graph_.info(from).nelms() == 0) return;
      auto view = ops::viewThrough(source.view, graph_.info(source.tensor).shape(), *of);
      if (!view) return;
      source = {from, std::move(*view)};
      const Tensor &tensor = graph_.tensor(from);
      if (isReadByRows(operand, source.view) && tensor.hasProducer() && tensor.tensorType() != TensorType::Variable)
        entry->second.push_back(source);
    }
  }
  bool isReadByAttentionOnly(TensorIndex t) const {
    const Tensor &tensor = graph_.tensor(t);
    return !tensor.isGraphOutput() && std::ranges::all_of(tensor.uses(), [&](const Use &use) {
      const Op &op = graph_.op(use.op);
      return use.input < kOperands && isAttention(op) && !op.hasAttr(kViews[use.input]);
    });
  }
  // An operand of an op, with its dimensions in the order of the product.
  static ops::OperandView inProduct(const Op &op, size_t i, const ops::OperandView &view) {
    return op.hasAttr(kPermutations[i]) ? ops::permuted(view, op.attrInts(kPermutations[i])) : view;
  }
  bool isReadByRows(TensorIndex operand, const ops::OperandView &view) const {
    return std::ranges::all_of(graph_.tensor(operand).uses(), [&](const Use &use) {
      return hasContiguousMatrices(inProduct(graph_.op(use.op), static_cast<size_t>(use.input), view));
    });
  }
  // Whether an op that reads the operand is in another stage of a pipeline than `op`.
  bool isApart(const Op &op, TensorIndex operand) const {
    return std::ranges::any_of(graph_.tensor(operand).uses(),
                               [&](const Use &use) { return runsApart(op, graph_.op(use.op)); });
  }

  static int64_t elementsOf(const ops::OperandView &view) {
    int64_t count = 1;
    for (size_t d = 0; d < view.sizes.size(); ++d)
      if (view.strides[d] != 0) count *= view.sizes[d];
    return count;
  }
  // Keeps the sources of which operands contain all elements.
  void chooseSources() {
    std::map<TensorIndex, int64_t> elements;  // of the operands that are parts of a tensor
    for (const auto &[operand, sources] : operands_)
      for (const Source &source : sources) elements[source.tensor] += elementsOf(source.view);
    for (auto &[operand, sources] : operands_)
      std::erase_if(sources, [&](const Source &source) {
        return elements.at(source.tensor) < graph_.info(source.tensor).nelms();
      });
  }

  void read(const Op &op) {
    std::vector<TensorIndex> inputs = op.inputs();
    Attributes attributes = op.attributes();
    for (size_t i = 0; i < kOperands; ++i) {
      const std::vector<Source> &sources = operands_.at(inputs[i]);
      if (sources.empty()) continue;
      const Source &source = sources.back();
      attributes.erase(kPermutations[i]);
      attributes.set(kViews[i], ops::toInts(inProduct(op, i, source.view)));
      inputs[i] = source.tensor;
    }
    if (inputs == op.inputs()) return;
    const Op *made = tryReplace(graph_, {op.def(), inputs, attributes, inheritSettings(op, graph_), op.outputs()},
                                [&](const Op &candidate) {
                                  std::string reason;
                                  return backend_.supports(candidate, reason);
                                });
    if (!made) return;
    graph_.moveConstraints(op.index(), made->index());
    graph_.eraseOpAndOutputs(op.index());
  }

  // Erases the ops that made `t`, as far as nothing else reads their results.
  void eraseUnread(TensorIndex t) {
    while (graph_.alive(t) && graph_.tensor(t).uses().empty() && !graph_.tensor(t).isGraphOutput()) {
      const Op *op = graph_.tensor(t).getProducerUnsafe();
      if (!op || op->outputCount() != 1 || !(executable::isFreeView(*op) || ops::stridedView(*op))) return;
      const TensorIndex from = op->inputs()[0];
      graph_.eraseOpAndOutputs(op->index());
      t = from;
    }
  }

  Graph &graph_;
  const executable::Backend &backend_;
  std::map<TensorIndex, std::vector<Source>> operands_;  // and their sources
};

class SliceWriter {
 public:
  SliceWriter(Graph &graph, const executable::Backend &backend) : graph_(graph), backend_(backend) {}

  void run() {
    for (const OpIndex o : schedule::orderOps(graph_)) {
      if (!graph_.alive(o)) continue;
      const Op &op = graph_.op(o);
      if (&op.def() == &opDef("FusedAttentionGrad") && !op.hasAttr("joint")) write(op);
    }
  }

 private:
  // Ops from a result to the tensor that has its elements, each the only reader of the one before.
  using Chain = std::vector<const Op *>;
  // Result `result`, which becomes the operand `end` of a Concat.
  struct Part {
    size_t result;
    TensorIndex end;
    Chain chain;
  };

  void write(const Op &op) {
    std::map<OpIndex, std::vector<Part>> joins;  // by Concat
    for (size_t o = 0; o < op.outputs().size(); ++o) {
      if (!op.outputs()[o].valid()) continue;
      Part part{o, op.outputs()[o], follow(op.outputs()[o])};
      if (!part.chain.empty()) part.end = part.chain.back()->outputs()[0];
      const Op *join = onlyReader(part.end);
      if (join && &join->def().base() == &opDef("Concat").base()) joins[join->index()].push_back(std::move(part));
    }
    for (const auto &[index, parts] : joins) {
      const Op &join = graph_.op(index);
      if (static_cast<size_t>(join.inputCount()) != parts.size()) continue;
      for (Chain after = follow(join.outputs()[0]);; after.pop_back()) {
        if (replace(op, join, parts, after)) return;
        if (after.empty()) break;
      }
    }
  }
  const Op *onlyReader(TensorIndex t) const {
    const Tensor &tensor = graph_.tensor(t);
    if (tensor.isGraphOutput() || tensor.uses().size() != 1) return nullptr;
    const Op &reader = graph_.op(tensor.uses()[0].op);
    return staysApart(*tensor.getProducer(), reader) ? nullptr : &reader;
  }
  Chain follow(TensorIndex t) const {
    Chain chain;
    while (const Op *reader = onlyReader(t)) {
      if (!executable::isFreeView(*reader) && !isTransposeOfKnownAxes(*reader)) break;
      chain.push_back(reader);
      t = reader->outputs()[0];
    }
    return chain;
  }

  // Where the elements of the first operand of a chain are, in the tensor in which `view` says where those of its
  // result are. Dimensions of the result are split until, in the order of their strides in the operand, they are a
  // shape of the operand.
  static std::optional<ops::OperandView> before(const Chain &chain, ops::OperandView view) {
    if (chain.empty()) return view;
    std::optional<ops::OperandView> read = ops::wholeOf(chain.back()->outShape(0));
    for (size_t i = chain.size(); i-- > 0;) {
      if (!chain[i]->is(Role::Transpose)) continue;
      split(*read, view, chain[i]->outShape(0));
      read = ops::viewThrough(*read, chain[i]->outShape(0), *ops::stridedView(*chain[i]));
      if (!read) return std::nullopt;
    }
    const Shape &shape = chain.front()->inShape(0);
    split(*read, view, shape);
    std::vector<int64_t> order;
    for (size_t d = 0; d < read->sizes.size(); ++d)
      if (read->sizes[d] != 1) order.push_back(static_cast<int64_t>(d));
    std::ranges::sort(order, std::ranges::greater(), [&](int64_t d) { return read->strides[static_cast<size_t>(d)]; });
    const ops::OperandView ordered = ops::permuted(view, order);
    return ops::viewThrough(ops::wholeOf(shape), ordered.sizes, {ordered.offset, ordered.strides});
  }
  // Splits the dimensions of `read`, and those of `view` with it, where they cross a border of a dimension of `shape`.
  static void split(ops::OperandView &read, ops::OperandView &view, const Shape &shape) {
    const Shape own = ops::stridesInOrder(shape);
    for (size_t i = 0; i < read.sizes.size(); ++i)
      for (size_t d = own.size(); d-- > 0 && read.sizes[i] > 1;) {
        const int64_t inner = own[d] % read.strides[i] == 0 ? own[d] / read.strides[i] : 0;
        if (inner <= 1 || inner >= read.sizes[i] || read.sizes[i] % inner != 0) continue;
        for (ops::OperandView *v : {&read, &view}) {
          v->sizes.insert(v->sizes.begin() + static_cast<ptrdiff_t>(i), v->sizes[i] / inner);
          v->sizes[i + 1] = inner;
          v->strides.insert(v->strides.begin() + static_cast<ptrdiff_t>(i), v->strides[i] * inner);
        }
      }
  }

  // Writes the results to their places in the result of `after`, the ops that follow the Concat.
  bool replace(const Op &op, const Op &join, const std::vector<Part> &parts, const Chain &after) {
    const TensorIndex joined = join.outputs()[0], last = after.empty() ? joined : after.back()->outputs()[0];
    const auto whole = before(after, ops::wholeOf(graph_.info(last).shape()));
    if (!whole || graph_.info(last).nelms() == 0) return false;
    Attributes attributes = op.attributes();
    attributes.set("joint", graph_.info(last).shape());
    const auto axis = static_cast<size_t>(ops::axisOf(join.attributes(), join.outRank(0)));
    std::vector<TensorIndex> results = op.outputs();
    results.resize(kJoint + 1);
    results[kJoint] = last;
    for (const auto &[o, end, chain] : parts) {
      ops::OperandView slice = *whole;
      slice.sizes = graph_.info(end).shape();
      for (const TensorIndex other : join.inputs()) {
        if (other == end) break;
        slice.offset += graph_.info(other).shape()[axis] * slice.strides[axis];
      }
      auto view = before(chain, std::move(slice));
      if (!view) return false;
      if (op.hasAttr(kResults[o])) view = ops::permuted(*view, ops::inversePermutation(op.attrInts(kResults[o])));
      if (!hasContiguousMatrices(*view)) return false;
      attributes.erase(kResults[o]);
      attributes.set(kResultViews[o], ops::toInts(*view));
      results[o] = {};
    }
    const Op *made = tryReplace(graph_, {op.def(), op.inputs(), attributes, inheritSettings(op, graph_), results},
                                [&](const Op &candidate) {
                                  std::string reason;
                                  return backend_.supports(candidate, reason);
                                });
    if (!made) return false;
    graph_.moveConstraints(op.index(), made->index());
    for (size_t i = after.size(); i-- > 0;) graph_.eraseOpAndOutputs(after[i]->index());
    graph_.eraseOpAndOutputs(join.index());
    for (const auto &[o, end, chain] : parts)
      for (size_t i = chain.size(); i-- > 0;) graph_.eraseOpAndOutputs(chain[i]->index());
    graph_.eraseOpAndOutputs(op.index());
    return true;
  }

  Graph &graph_;
  const executable::Backend &backend_;
};

}  // namespace

void writeSlicesInPlace(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs()) SliceWriter(*graph, backend).run();
}

void readSlicesInPlace(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs()) SliceReader(*graph, backend).run();
}

}  // namespace popart::lower
