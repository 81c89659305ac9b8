// See counted_loop.hpp. Carried values come before values that are passed in, so add them first.
#include "transforms/counted_loop.hpp"

#include <algorithm>

namespace popart::transforms {

Op *addCountedLoop(Graph &graph, int64_t count, const Op::Settings &settings) {
  Ir &ir = graph.getIr();
  Graph &body = ir.createGraph(ir.createUniqueSubgraphId(settings.name));
  body.addInput("iteration", TensorInfo(DataType::INT64, {}));
  body.markOutput(body.addInput("condition", TensorInfo(DataType::BOOL, {})));
  return graph.addOp(opDef("Loop"), {{"body", GraphRef{body.id}}, {"trip_count", count}, {"carried", int64_t{0}}},
                     settings);
}

Graph &bodyOf(const Op &loop) { return *loop.getCalledGraphs().front(); }

InIndex passIn(Op &loop, TensorIndex t) {
  Graph &graph = loop.getGraph(), &body = bodyOf(loop);
  const auto input = static_cast<InIndex>(body.inputs().size());
  body.addInput(body.freeId(graph.tensor(t).id), graph.info(t));
  graph.connectInput(loop.index(), input, t);
  return input;
}

void writeThrough(Op &loop, const std::vector<InIndex> &inputs) {
  std::vector<int64_t> modified = loop.attrInts("modified");
  modified.insert(modified.end(), inputs.begin(), inputs.end());
  std::sort(modified.begin(), modified.end());
  loop.mutableAttributes().set("modified", modified);
  Graph &body = bodyOf(loop);
  for (InIndex i : inputs) body.tensor(body.inputs()[static_cast<size_t>(i)]).byReference = true;
}

}  // namespace popart::transforms
