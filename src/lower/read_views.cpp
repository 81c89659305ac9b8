// See read_views.hpp. Views of one reader are merged one at a time; those that the backend refuses stay.
#include "lower/read_views.hpp"

#include <algorithm>
#include <map>

#include "executable/executable.hpp"
#include "ir/hints.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "ops/numbers.hpp"
#include "ops/shape/strided_view.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

constexpr int kMostOpsBetween = 8;  // most ops between a view and its reader, in program order

// The body of a fused op, copied from ops outside.
struct Body {
  const Graph &outside;
  Graph &graph;
  std::vector<TensorIndex> operands;
  std::map<TensorIndex, TensorIndex> inner;  // by tensor outside

  TensorIndex of(TensorIndex t) {
    if (!t.valid()) return {};
    if (const auto known = inner.find(t); known != inner.end()) return known->second;
    const Tensor &tensor = outside.tensor(t);
    const TensorId id = graph.freeId(graph.addScope(tensor.id));
    if (ops::isNumber(tensor)) return inner[t] = graph.addConstant(id, tensor.tensorData());
    operands.push_back(t);
    return inner[t] = graph.addInput(id, tensor.info);
  }
  // Returns the op's result.
  TensorIndex copy(const Op &op) {
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs()) inputs.push_back(of(t));
    return inner[op.outputs()[0]] = copyOf(op, inputs);
  }
  // Copies another body with these operands, including its outputs.
  void copyAll(const Graph &other, const std::vector<TensorIndex> &given) {
    std::map<TensorIndex, TensorIndex> here;
    for (size_t i = 0; i < given.size(); ++i) here[other.inputs()[i]] = of(given[i]);
    for (const Op *op : other.getOpSchedule()) {
      std::vector<TensorIndex> inputs;
      for (const TensorIndex t : op->inputs()) {
        if (t.valid() && !here.count(t))
          here[t] = graph.addConstant(graph.freeId(graph.addScope(other.tensor(t).id)), other.tensor(t).tensorData());
        inputs.push_back(t.valid() ? here.at(t) : t);
      }
      here[op->outputs()[0]] = copyOf(*op, inputs);
    }
    for (const TensorIndex t : other.outputs()) graph.markOutput(here.at(t));
  }

 private:
  TensorIndex copyOf(const Op &op, const std::vector<TensorIndex> &inputs) {
    return graph
        .addConnectedOp(op.def(), inputs, {graph.freeId(graph.addScope(op.outTensor(0)->id))}, op.attributes(),
                        copySettings(op, graph))
        ->outputs()[0];
  }
};

class ViewReader {
 public:
  ViewReader(Ir &ir, Graph &graph, const executable::Backend &backend) : ir_(ir), graph_(graph), backend_(backend) {}

  void run() {
    const std::vector<OpIndex> order = schedule::orderOps(graph_);
    for (size_t i = 0; i < order.size(); ++i) position_.emplace(order[i].value, static_cast<int>(i));
    for (const OpIndex o : order) {
      Op *reader = &graph_.op(o);
      if (!computes(*reader)) continue;
      const int at = position_.at(o.value);
      const std::vector<TensorIndex> inputs = reader->inputs();
      for (const TensorIndex t : inputs)
        if (isView(*reader, at, t))
          if (Op *merged = merge(*reader, t)) reader = merged;
    }
  }

 private:
  static bool computes(const Op &op) {
    const bool isPlain = std::ranges::all_of(
        op.outputs(), [&](TensorIndex t) { return t.valid() && op.getGraph().tensor(t).layout.empty(); });
    return isPlain && (op.is(Role::FusedElementwise) || (isElementwise(op) && op.outputCount() == 1)) &&
           op.settings.hints.count(kKeepApart) == 0;
  }

  bool isView(const Op &reader, int at, TensorIndex t) const {
    if (!t.valid()) return false;
    const Tensor &value = graph_.tensor(t);
    if (!value.hasProducer() || value.isGraphOutput() || !value.layout.empty() || value.uses().size() != 1 ||
        value.info.shape() != reader.outShape(0))
      return false;
    const Op &view = *value.getProducer();
    const auto made = position_.find(view.index().value);
    return view.inputCount() == 1 && view.outputCount() == 1 && ops::stridedView(view) &&
           !executable::takesNoStep(view) && view.inTensor(0)->layout.empty() &&
           view.inTensor(0)->tensorType() != TensorType::Variable && !staysApart(view, reader) &&
           made != position_.end() && at - made->second <= kMostOpsBetween;
  }

  // Returns null if the backend refuses.
  Op *merge(Op &reader, TensorIndex t) {
    Op &view = *graph_.tensor(t).getProducer();
    GraphId id;
    do id = "fused/" + std::to_string(ir_.getAndIncrSubgraphCounter());
    while (ir_.hasGraph(id));
    Body body{graph_, ir_.createGraph(id), {}, {}};
    body.copy(view);
    if (reader.is(Role::FusedElementwise))
      body.copyAll(*reader.getCalledGraphs().front(), reader.inputs());
    else
      body.graph.markOutput(body.copy(reader));
    Op *made = tryReplace(graph_,
                          {opDef("FusedElementwise"),
                           body.operands,
                           {{"body", GraphRef{id}}},
                           inheritSettings(reader, graph_),
                           reader.outputs()},
                          [&](const Op &op) {
                            std::string reason;
                            return backend_.createKernel(executable::requestOf(op), reason) != nullptr;
                          });
    if (!made) return ir_.removeGraph(id), nullptr;
    const GraphId former = reader.is(Role::FusedElementwise) ? reader.getCalledGraphs().front()->id : GraphId();
    graph_.moveConstraints(reader.index(), made->index());
    graph_.eraseOpAndOutputs(reader.index());
    graph_.eraseOpAndOutputs(view.index());
    if (!former.empty()) ir_.removeGraph(former);
    return made;
  }

  Ir &ir_;
  Graph &graph_;
  const executable::Backend &backend_;
  std::map<uint32_t, int> position_;
};

}  // namespace

void readViews(Ir &flat, const executable::Backend &backend) {
  std::vector<Graph *> graphs = flat.getAllGraphs();
  std::erase_if(graphs, [](const Graph *graph) { return graph->id.rfind("fused/", 0) == 0; });  // bodies come and go
  for (Graph *graph : graphs) ViewReader(flat, *graph, backend).run();
}

}  // namespace popart::lower
