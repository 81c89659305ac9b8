// If and Call. Tensors that a body reads from outside become additional inputs of its graph.
#include <algorithm>
#include <map>
#include <utility>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "onnx/importer.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {

Scope bodyScope(NodeContext &n) {
  Scope scope;
  scope.outer = &n.scope();
  scope.opsets = n.scope().opsets;
  scope.functionAttributes = n.scope().functionAttributes;
  scope.function = n.scope().function;
  return scope;
}

namespace {

std::string bodyName(const NodeContext &n, const char *part) {
  return (n.settings().name.empty() ? n.type() : n.settings().name) + "/" + part;
}

// For a condition that is known when the graph is built: the branch replaces the node.
void inlineBranch(NodeContext &n, const char *branch) {
  std::vector<TensorId> ids;
  for (int i = 0; i < n.outputCount(); ++i) ids.push_back(n.hasOut(i) ? n.outputId(i) : TensorId());
  const std::string prefix = n.scope().prefix + bodyName(n, branch) + "/";
  const std::vector<Meaning> outputs = n.importer().inlineGraph(n.graphAttribute(branch), n.scope(), prefix, ids);
  n.require(static_cast<int>(outputs.size()) >= n.outputCount(),
            "{} has fewer outputs than the node: got {}, expected {}", branch, static_cast<int>(outputs.size()),
            n.outputCount());
  for (int i = 0; i < n.outputCount(); ++i)
    if (n.hasOut(i)) n.resultMeaning(i, outputs[i]);
}

// "a tensor", "a sequence of 3", …: the kind must be the same in both branches.
std::string kindOf(const Meaning &m) {
  if (m.sequence) return "a sequence of " + std::to_string(m.sequence->size());
  return m.tensor.valid() ? "a tensor" : "nothing";
}

// The two branches of a node whose condition is data of the run. If one returns a size that depends on data, or both
// return different sizes, both are padded to the larger room, and the count of values is an additional result. A branch
// that does not match the given types and shapes becomes one that ends the run, which only matters if it is taken
// (docs/decisions/0087-branches-that-do-not-fit.md).
class BranchNode {
 public:
  explicit BranchNode(NodeContext &n) : n_(n) {}

  void import() {
    for (const char *branch : kBranches) n_.graphAttribute(branch);  // both must exist
    const std::string reasons[2] = {tryBranch(0), tryBranch(1)};
    for (size_t side = 0; side < 2; ++side)
      if (!reasons[side].empty()) {
        n_.require(reasons[1 - side].empty(), "no branch fits. {}: {} {}: {}", kBranches[0], reasons[0], kBranches[1],
                   reasons[1]);
        refuseBranch(side, reasons[side]);
      }
    refuseOtherResults();
    for (size_t i = 0; i < std::min(meanings_[0].size(), meanings_[1].size()); ++i)
      n_.requireKnown(kindOf(meanings_[0][i]) == kindOf(meanings_[1][i]),
                      "the branches give output {} as {} and {}, so that the condition must be known when the graph is "
                      "built. Make it a constant, or give both the same length",
                      static_cast<int64_t>(i), kindOf(meanings_[0][i]), kindOf(meanings_[1][i]));
    n_.require(static_cast<int>(meanings_[0].size()) >= n_.outputCount(),
               "then_branch has fewer outputs than the node: got {}, expected {}",
               static_cast<int>(meanings_[0].size()), n_.outputCount());
    if (graphs_[0]->outputs().size() == graphs_[1]->outputs().size()) joinSizes();
    addOp();
  }

 private:
  struct OpenSize {
    size_t output;  // of the graphs
    Bound bound;    // without a count if the op returns it
    size_t count;   // then its position among the counts
  };
  using Counts = std::pair<TensorIndex, TensorIndex>;

  static constexpr const char *kBranches[] = {"then_branch", "else_branch"};

  void importBranch(size_t side) {
    Scope scope = bodyScope(n_);
    Graph &graph = n_.importer().importBody(n_.graphAttribute(kBranches[side]), bodyName(n_, kBranches[side]), {},
                                            scope, &meanings_[side], BodySizes::Open);
    for (const auto &capture : scope.captures) {
      captured_[side].push_back(capture.outer);
      outer_[side].emplace(capture.inner, capture.outer);
    }
    graphs_[side] = &graph;
  }

  // Empty, or the reason why the branch does not match; then nothing of it is left. A value that must be known is
  // thrown instead: loops around the node may be unrolled for it.
  std::string tryBranch(size_t side) {
    const std::vector<Graph *> before = n_.importer().ir().getAllGraphs();
    try {
      importBranch(side);
      for (Graph *graph : n_.importer().ir().getAllGraphs())
        if (std::ranges::find(before, graph) == before.end()) made_[side].push_back(graph);
      return {};
    } catch (const internal_error &) {
      throw;
    } catch (const unknown_value_error &) {
      throw;
    } catch (const limit_error &) {
      throw;
    } catch (const error &e) {
      n_.importer().removeGraphsBut(before);
      return e.what();
    }
  }

  // Makes the branch one that ends the run, with results like those of the other branch.
  void refuseBranch(size_t side, const std::string &reason) {
    const std::string name = n_.settings().name.empty() ? n_.firstOutput() : n_.settings().name;
    logging::ir::info("If '{}': {} does not fit: {} A run that takes it ends with an error", name, kBranches[side],
                      reason);
    Ir &ir = n_.importer().ir();
    for (const Graph *graph : made_[side]) {
      n_.importer().sizes().forget(*graph);
      ir.removeGraph(graph->id);
    }
    Graph &graph = ir.createGraph(ir.createUniqueSubgraphId(bodyName(n_, kBranches[side])));
    const std::string text = formatText(
        "If '{}': the run takes {}, which does not fit: {} Feed inputs that fit it, or make the condition a constant",
        {name, kBranches[side], reason});
    n_.importer().addPlainOp(graph, "Abort", {}, {}, {{"reason", text}}, Op::Settings(graph, n_.settings().name));
    captured_[side].clear(), outer_[side].clear(), graphs_[side] = &graph;
    const Graph &other = *graphs_[1 - side];
    for (TensorIndex t : other.outputs())
      graph.markOutput(plainOps(side).freshOp("ConstantOfShape", {}, zerosLike(other.info(t))));
    meanings_[side] = meanings_[1 - side];
    size_t next = 0;
    for (Meaning &meaning : meanings_[side]) {
      if (meaning.tensor.valid()) meaning.tensor = graph.outputs()[next++];
      if (meaning.sequence)
        for (TensorIndex &element : *meaning.sequence) element = graph.outputs()[next++];
    }
  }

  static Attributes zerosLike(const TensorInfo &info) {
    const double zero = 0;
    return {{"shape", info.shape()}, {"value", TensorData::fromDoubles(TensorInfo(info.dataType(), {1}), {&zero, 1})}};
  }

  // For results of another type or rank: the program can have only one of the two. It has the one that the model
  // declares, otherwise that of then_branch; the other branch is refused.
  void refuseOtherResults() {
    if (meanings_[0].size() != meanings_[1].size()) return;
    for (size_t i = 0; i < meanings_[0].size(); ++i) {
      const TensorIndex results[2] = {meanings_[0][i].tensor, meanings_[1][i].tensor};
      if (!results[0].valid() || !results[1].valid()) continue;
      widenPositions(i);
      const TensorInfo infos[2] = {graphs_[0]->info(meanings_[0][i].tensor), graphs_[1]->info(meanings_[1][i].tensor)};
      if (infos[0].dataType() == infos[1].dataType() && infos[0].rank() == infos[1].rank()) continue;
      const size_t side = isDeclared(i, infos[1]) && !isDeclared(i, infos[0]) ? 0 : 1;
      return refuseBranch(side, formatText("output {} is {}, but the program has {}.",
                                           {toText(i), toText(infos[side]), toText(infos[1 - side])}));
    }
  }

  // Positions are INT32 here and INT64 in ONNX: if the other branch has INT64, they are cast to it.
  void widenPositions(size_t i) {
    for (size_t side = 0; side < 2; ++side) {
      TensorIndex &mine = meanings_[side][i].tensor;
      const DataType other = graphs_[1 - side]->info(meanings_[1 - side][i].tensor).dataType();
      if (graphs_[side]->info(mine).dataType() != DataType::INT32 || other != DataType::INT64) continue;
      const TensorIndex wide = plainOps(side).op("Cast", {mine}, {{"to", int64_t{toOnnxDataType(DataType::INT64)}}});
      n_.importer().sizes().setBounds(*graphs_[side], wide, n_.importer().sizes().boundsOf(*graphs_[side], mine));
      std::vector<TensorIndex> outputs = graphs_[side]->outputs();
      std::ranges::replace(outputs, mine, wide);
      graphs_[side]->setOutputs(std::move(outputs));
      mine = wide;
    }
  }

  // Whether the enclosing graph declares output i with this type and rank.
  bool isDeclared(size_t i, const TensorInfo &info) const {
    const onnx_proto::GraphProto *graph = n_.scope().source;
    if (!graph || static_cast<int>(i) >= n_.outputCount()) return false;
    const auto fits = [&](const onnx_proto::ValueInfoProto &value) {
      const auto &type = value.type().tensor_type();
      return value.name() == n_.outputNames()[i] && type.has_shape() && type.shape().dim_size() == info.rank() &&
             type.elem_type() == toOnnxDataType(info.dataType());
    };
    return std::ranges::any_of(graph->value_info(), fits) || std::ranges::any_of(graph->output(), fits);
  }

  PlainOps plainOps(size_t side) const {
    return {n_.importer(), *graphs_[side], graphs_[side]->addScope(n_.firstOutput()),
            Op::Settings(*graphs_[side], n_.settings().name)};
  }

  void joinSizes() {
    std::vector<TensorIndex> outputs[2] = {graphs_[0]->outputs(), graphs_[1]->outputs()};
    for (size_t o = 0; o < outputs[0].size(); ++o) joinSizes(o, outputs);
    for (size_t side = 0; side < 2; ++side) {
      for (const Counts &counts : counts_) outputs[side].push_back(side == 0 ? counts.first : counts.second);
      graphs_[side]->setOutputs(std::move(outputs[side]));
    }
  }

  void joinSizes(size_t o, std::vector<TensorIndex> (&outputs)[2]) {
    const BoundedSizes &known = n_.importer().sizes();
    const Sizes a = known.shapeOf(*graphs_[0], outputs[0][o]), b = known.shapeOf(*graphs_[1], outputs[1][o]);
    if (a.size() != b.size()) return;  // the op reports the problem
    Shape room;
    for (size_t axis = 0; axis < a.size(); ++axis) {
      room.push_back(std::max(a[axis].most, b[axis].most));
      if (a[axis].isKnown() && b[axis].isKnown() && a[axis].most == b[axis].most) continue;
      const int64_t per = commonPart(a[axis], b[axis]);
      const Counts counts{countOf(0, a[axis], per), countOf(1, b[axis], per)};
      const Bound bound{sharedCount(counts), static_cast<int64_t>(axis), per};
      const auto at = std::ranges::find(counts_, counts);
      open_.push_back({o, bound, static_cast<size_t>(at - counts_.begin())});
      if (at == counts_.end() && !bound.count.valid()) counts_.push_back(counts);
    }
    for (size_t side = 0; side < 2; ++side) outputs[side][o] = padded(side, outputs[side][o], room);
  }

  // The count from the enclosing graph that both branches read; invalid if one has another.
  TensorIndex sharedCount(const Counts &counts) const {
    const auto a = outer_[0].find(counts.first), b = outer_[1].find(counts.second);
    return a != outer_[0].end() && b != outer_[1].end() && a->second == b->second ? a->second : TensorIndex{};
  }

  // The number of elements in a row of a count that both branches can state.
  static int64_t commonPart(const Size &a, const Size &b) {
    const auto fits = [](const Size &s, int64_t per) { return s.isKnown() ? s.most % per == 0 : s.per == per; };
    const int64_t per = a.isKnown() ? b.per : a.per;
    return fits(a, per) && fits(b, per) ? per : 1;
  }

  TensorIndex countOf(size_t side, const Size &size, int64_t per) const {
    const PlainOps to = plainOps(side);
    if (size.isKnown()) return to.integer(size.most / per);
    return size.per == per ? size.count : BoundedSizes::length(to, {size.count, 0, size.per});
  }

  TensorIndex padded(size_t side, TensorIndex t, const Shape &room) const {
    const Shape shape = graphs_[side]->info(t).shape();
    if (shape == room) return t;
    std::vector<int64_t> pads(2 * room.size(), 0);
    for (size_t i = 0; i < room.size(); ++i) pads[room.size() + i] = room[i] - shape[i];
    return plainOps(side).op("Pad", {t}, {{"pads", pads}});
  }

  // The tensors of sequences are separate outputs of the op.
  void addOp() {
    std::vector<TensorId> ids;
    const std::vector<Meaning> &results = meanings_[0];
    const auto further = [&](const char *what) {
      return n_.importer().freshId(
          n_.graph(), n_.graph().addScope(n_.scope().prefix + elementId(n_.firstOutput() + what, ids.size())));
    };
    for (size_t i = 0; i < results.size(); ++i) {
      const int output = static_cast<int>(i);
      const bool named = output < n_.outputCount() && n_.hasOut(output);
      if (results[i].tensor.valid()) ids.push_back(named ? n_.outputId(output) : n_.unusedId("If", output));
      for (size_t e = 0; results[i].sequence && e < results[i].sequence->size(); ++e) ids.push_back(further("/branch"));
    }
    const size_t values = ids.size();
    std::vector<TensorIndex> inputs{n_.in(0)};
    Attributes attributes;
    for (size_t side = 0; side < 2; ++side) {
      inputs.insert(inputs.end(), captured_[side].begin(), captured_[side].end());
      attributes.set(kBranches[side], GraphRef{graphs_[side]->id});
    }
    for (size_t c = 0; c < counts_.size(); ++c) ids.push_back(further("/count"));
    n_.importer().addOp(n_.graph(), "If", inputs, ids, std::move(attributes), n_.settings());
    setBounds(ids, values);
    size_t next = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      const int output = static_cast<int>(i);
      Meaning meaning = results[i];
      if (meaning.tensor.valid()) meaning.tensor = n_.graph().find(ids[next++]);
      if (meaning.sequence)
        for (TensorIndex &element : *meaning.sequence) element = n_.graph().find(ids[next++]);
      if (output >= n_.outputCount() || !n_.hasOut(output)) continue;
      n_.resultMeaning(output, meaning);
    }
  }

  void setBounds(const std::vector<TensorId> &ids, size_t values) {
    std::map<size_t, Bounds> bounds;
    for (const OpenSize &open : open_) {
      Bound bound = open.bound;
      if (!bound.count.valid()) bound.count = n_.graph().find(ids[values + open.count]);
      bounds[open.output].push_back(bound);
    }
    for (const auto &[output, own] : bounds)
      n_.importer().sizes().setBounds(n_.graph(), n_.graph().find(ids[output]), own);
  }

  NodeContext &n_;
  std::vector<TensorIndex> captured_[2];   // tensors that the branches read from the enclosing graph
  Graph *graphs_[2] = {nullptr, nullptr};  // then, else
  std::vector<Graph *> made_[2];           // these graphs and the graphs in them
  std::vector<Meaning> meanings_[2];
  std::map<TensorIndex, TensorIndex> outer_[2];  // the outer tensors of their inputs
  std::vector<Counts> counts_;                   // of both graphs
  std::vector<OpenSize> open_;
};

void importIf(NodeContext &n) {
  n.require(n.info(0).dataType() == DataType::BOOL && n.info(0).nelms() == 1, "condition must be one boolean: got {}",
            n.info(0));
  if (n.isConstant(n.in(0))) return inlineBranch(n, n.constantNumber(0) != 0 ? "then_branch" : "else_branch");
  BranchNode(n).import();
}

// ai.graphcore Call: the subgraph is the attribute `callee`.
void importCall(NodeContext &n) {
  std::vector<TensorIndex> inputs;
  std::vector<TensorInfo> infos;
  for (int i = 0; i < n.inputCount(); ++i) {
    inputs.push_back(n.in(i));
    infos.push_back(n.info(i));
  }
  n.require(n.graphAttribute("callee").input_size() == n.inputCount(),
            "the callee has another number of inputs: got {} for the node, expected {}", n.inputCount(),
            n.graphAttribute("callee").input_size());
  Scope scope = bodyScope(n);
  const Graph &callee = n.importer().importBody(n.graphAttribute("callee"), bodyName(n, "callee"), infos, scope);
  n.require(static_cast<int>(callee.outputs().size()) == n.outputCount(),
            "the callee has another number of outputs: got {} for the node, expected {}", n.outputCount(),
            static_cast<long>(callee.outputs().size()));
  for (const auto &capture : scope.captures) inputs.push_back(capture.outer);
  n.results("Call", inputs, {{"callee", GraphRef{callee.id}}});
}

}  // namespace

std::vector<ImportRule> controlRules() { return {{"ai.onnx", "If", importIf}, {"ai.graphcore", "Call", importCall}}; }

}  // namespace popart::onnx
