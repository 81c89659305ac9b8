#include "lower/join_extremes.hpp"

#include "lower/channels_last.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "ops/reduce/extremes.hpp"
#include "ops/rules.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using ops::Extreme;
using ops::extremeOf;

std::vector<int64_t> reducedAxes(const Op &op) { return ops::reductionAxes(op.attributes(), op.inRank(0)); }

// The ReduceMax of the same tensor as this ReduceMin.
Op *greatestOfSameTensor(const Op &least) {
  for (Op *op : least.getGraph().tensor(least.inputs()[0]).consumerOps())
    if (extremeOf(*op) == Extreme::Greatest && op->outInfo(0) == least.outInfo(0) &&
        reducedAxes(*op) == reducedAxes(least) && !staysApart(least, *op) && !staysApart(*op, least))
      return op;
  return nullptr;
}

void joinPair(Graph &graph, Op &least, Op &greatest, const executable::Backend &backend) {
  const int64_t keeps = least.outRank(0) == least.inRank(0);
  const Op *both = tryReplace(graph,
                              {opDef("ReduceExtremes"),
                               {least.inputs()[0]},
                               {{"axes", reducedAxes(least)}, {"keepdims", keeps}},
                               inheritSettings(least, graph),
                               {least.outputs()[0], greatest.outputs()[0]}},
                              [&](const Op &op) { return hasKernel(op, backend); });
  if (!both) return;
  for (Op *op : {&least, &greatest}) graph.eraseOpAndOutputs(op->index());
}

}  // namespace

void joinExtremes(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    for (OpIndex o : schedule::orderOps(*graph)) {
      if (!graph->alive(o) || extremeOf(graph->op(o)) != Extreme::Least) continue;
      if (Op *greatest = greatestOfSameTensor(graph->op(o))) joinPair(*graph, graph->op(o), *greatest, backend);
    }
}

}  // namespace popart::lower
