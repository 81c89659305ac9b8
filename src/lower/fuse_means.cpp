#include "lower/fuse_means.hpp"

#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "ops/rules.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// Whether the op is the mean over all dimensions but images and channels.
bool isMeanOfPixels(const Op &op) {
  if (&op.def().base() != &opDef("ReduceMean").base() || op.inRank(0) < 3) return false;
  std::vector<int64_t> spatial;
  for (int64_t d = 2; d < op.inRank(0); ++d) spatial.push_back(d);
  return ops::reductionAxes(op.attributes(), op.inRank(0)) == spatial;
}

void absorbMean(Graph &graph, Op &convolution, Op &mean, int64_t of, const executable::Backend &backend) {
  Attributes attributes = convolution.attributes();
  attributes.set("means_of", of);
  attributes.set("means_keepdims", int64_t{mean.outRank(0) == mean.inRank(0)});
  std::vector<TensorIndex> results = convolution.outputs();
  results.push_back(mean.outputs()[0]);
  const auto accepts = [&](const Op &fused) {
    for (size_t o = 0; o < results.size(); ++o)
      graph.tensor(fused.outputs()[o]).layout = graph.tensor(results[o]).layout;
    std::string reason;
    return backend.supports(fused, reason);
  };
  if (!tryReplace(graph,
                  {convolution.def(), convolution.inputs(), std::move(attributes), inheritSettings(convolution, graph),
                   results},
                  accepts))
    return;
  graph.eraseOpAndOutputs(mean.index());
  graph.eraseOpAndOutputs(convolution.index());
}

void absorbMean(Graph &graph, Op &convolution, const executable::Backend &backend) {
  for (int o = 0; o < convolution.outputCount(); ++o)
    for (Op *reader : graph.tensor(convolution.outputs()[static_cast<size_t>(o)]).consumerOps())
      if (isMeanOfPixels(*reader) && !staysApart(convolution, *reader))
        return absorbMean(graph, convolution, *reader, o, backend);
}

}  // namespace

void fuseMeans(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    for (OpIndex o : schedule::orderOps(*graph))
      if (graph->alive(o) && graph->op(o).is(Role::FusedConv)) absorbMean(*graph, graph->op(o), backend);
}

}  // namespace popart::lower
