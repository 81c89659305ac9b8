// See return_types.hpp. The number of a micro-batch in a run is computed from the iterations of the loops around a
// store, so no counter is carried from one iteration to the next.
#include "transforms/return_types.hpp"

#include <popart/error.hpp>

#include "transforms/counted_loop.hpp"

namespace popart::transforms {
namespace {

class ReturnMaker {
 public:
  ReturnMaker(Ir &ir, int64_t microBatches) : ir_(ir), microBatches_(microBatches) {
    for (Op *loop : ir.opsOfType("Loop")) loopAround_[&bodyOf(*loop)] = loop;
  }

  void apply(Op &store, const ReturnType &type) {
    switch (type.kind) {
      case ReturnType::Kind::All:
        forEachMicroBatch(store);
        return;
      case ReturnType::Kind::Final:
        return storeEvery(store, runs(store.getGraph()));
      case ReturnType::Kind::EveryN:
        return storeEvery(forEachMicroBatch(store), type.period);
      case ReturnType::Kind::Sum:
        return storeSum(store);
    }
  }

 private:
  Op *loopAround(const Graph &graph) const {
    const auto it = loopAround_.find(&graph);
    return it == loopAround_.end() ? nullptr : it->second;
  }
  // How often the ops of a graph run in one run of the program.
  int64_t runs(const Graph &graph) const {
    const Op *loop = loopAround(graph);
    return loop ? loop->attrInt("trip_count") * runs(loop->getGraph()) : 1;
  }

  // Copies `store` to the end of another graph, for its tensor `value`.
  static Op &copyInto(Graph &graph, TensorIndex value, const Op &store) {
    Op::Settings settings = inheritSettings(store, graph);
    settings.sequence = -1;
    return *graph.addConnectedOp(store.def(), {value}, {}, store.attributes(), settings);
  }
  static void replace(Op &store, const Op &replacement) {
    store.getGraph().moveConstraints(store.index(), replacement.index());
    store.getGraph().eraseOp(store.index());
  }

  // Puts the store into its own loop if it runs less often than there are micro-batches.
  Op &forEachMicroBatch(Op &store) {
    Graph &graph = store.getGraph();
    const int64_t times = microBatches_ / runs(graph);
    if (times <= 1) return store;
    Op::Settings settings = inheritSettings(store, graph);
    settings.name = "microBatches";
    Op *loop = addCountedLoop(graph, times, settings);
    const InIndex value = passIn(*loop, store.inputs()[0]);
    Graph &body = bodyOf(*loop);
    Op &inner = copyInto(body, body.inputs()[static_cast<size_t>(value)], store);
    loop->setup();
    loopAround_[&body] = loop;
    replace(store, *loop);
    return inner;
  }

  // Adds an op for a loop to `graph`, which is the body or the enclosing graph, and returns its result.
  static TensorIndex emit(Graph &graph, const Op &loop, const char *type, const std::vector<TensorIndex> &inputs,
                          const TensorId &id, Attributes attributes = {}) {
    return graph
        .addConnectedOp(opDef(type), inputs, {graph.freeId(id)}, std::move(attributes),
                        inheritSettings(loop, graph, type))
        ->outputs()[0];
  }
  static TensorIndex number(Graph &graph, int64_t value) {
    return graph.addConstant(graph.freeId(std::to_string(value)), TensorData::scalar(value));
  }

  // INT64 scalar: how often the ops of the graph have run in this run of the program.
  TensorIndex runsBefore(Graph &graph) {
    if (const auto it = runsBefore_.find(&graph); it != runsBefore_.end()) return it->second;
    const TensorIndex iteration = graph.inputs()[0];
    Op &loop = *loopAround(graph);
    Graph &outside = loop.getGraph();
    if (!loopAround(outside)) return runsBefore_[&graph] = iteration;
    const TensorIndex count = number(outside, loop.attrInt("trip_count"));
    const InIndex first = passIn(loop, emit(outside, loop, "Mul", {runsBefore(outside), count}, "firstMicroBatch"));
    return runsBefore_[&graph] =
               emit(graph, loop, "Add", {graph.inputs()[static_cast<size_t>(first)], iteration}, "microBatch");
  }

  // BOOL scalar: whether this is the period-th, 2 period-th … time that the ops of the graph run.
  TensorIndex isDue(Graph &graph, int64_t period) {
    if (const auto it = due_.find({&graph, period}); it != due_.end()) return it->second;
    const Op &loop = *loopAround(graph);
    TensorIndex place = runsBefore(graph);
    if (period < runs(graph)) place = emit(graph, loop, "Remainder", {place, number(graph, period)}, "placeInPeriod");
    return due_[{&graph, period}] = emit(graph, loop, "Equal", {place, number(graph, period - 1)}, "isReturned");
  }

  void storeEvery(Op &store, int64_t period) {
    if (period == 1) return;
    Graph &graph = store.getGraph();
    const TensorIndex value = store.inputs()[0];
    Graph &stores = ir_.createGraph(ir_.createUniqueSubgraphId("returned"));
    copyInto(stores, stores.addInput(graph.tensor(value).id, graph.info(value)), store);
    if (!nothing_) nothing_ = &ir_.createGraph(ir_.createUniqueSubgraphId("notReturned"));
    const Op *branch = graph.addConnectedOp(
        opDef("If"), {isDue(graph, period), value}, {},
        {{"then_branch", GraphRef{stores.id}}, {"else_branch", GraphRef{nothing_->id}}}, inheritSettings(store, graph));
    replace(store, *branch);
  }

  void storeSum(Op &store) {
    Graph *graph = &store.getGraph();
    if (!loopAround(*graph)) return;
    TensorIndex value = store.inputs()[0];
    const TensorInfo info = graph->info(value);
    check(info.dataType() != DataType::BOOL, "DataFlow anchor '{}': the values of {} have no sum. Return all of them",
          store.attrString("stream"), info);
    const TensorId id = graph->tensor(value).id + "___sum";
    Op *last = nullptr;  // the op that changed `value` last
    while (Op *loop = loopAround(*graph)) {
      Graph &outside = loop->getGraph();
      const double zero = 0;
      const TensorIndex scalar = outside.addConstant(
          outside.freeId("zero"), TensorData::fromDoubles(TensorInfo(info.dataType(), {}), {&zero, 1}));
      const TensorIndex sum = emit(outside, *loop, "Expand", {scalar}, id, {{"shape", info.shape()}});
      const InIndex input = passIn(*loop, sum);
      writeThrough(*loop, {input});
      Op *add = graph->addConnectedOp(opDef("AddLhsInplace"), {graph->inputs()[static_cast<size_t>(input)], value},
                                      {graph->freeId(id)}, {}, inheritSettings(store, *graph));
      if (last) graph->addConstraint(last->index(), add->index());
      value = sum, last = loop, graph = &outside;
    }
    const Op &after = copyInto(*graph, value, store);
    graph->addConstraint(last->index(), after.index());
    store.getGraph().eraseOp(store.index());
  }

  Ir &ir_;
  const int64_t microBatches_;
  std::map<const Graph *, Op *> loopAround_;
  std::map<const Graph *, TensorIndex> runsBefore_;
  std::map<std::pair<const Graph *, int64_t>, TensorIndex> due_;
  Graph *nothing_ = nullptr;  // the branch that stores nothing
};

}  // namespace

void applyReturnTypes(Ir &ir, const std::map<std::string, ReturnType> &types, int64_t microBatches) {
  ReturnMaker maker(ir, microBatches);
  for (Op *store : ir.opsOfType("HostStore"))
    if (const auto type = types.find(store->attrString("stream")); type != types.end())
      maker.apply(*store, type->second);
}

}  // namespace popart::transforms
