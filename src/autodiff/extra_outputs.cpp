// See extra_outputs.hpp. A Loop keeps its number of carried values; a scan output is added.
#include "autodiff/extra_outputs.hpp"

#include <algorithm>

#include <popart/ir.hpp>

#include "ops/control/loops.hpp"

namespace popart::autodiff {
namespace {

std::vector<Op *> sitesOf(const Graph &graph) {
  std::vector<Op *> result;
  for (Graph *g : graph.getIr().getAllGraphs())
    for (Op *op : g->ops()) {
      if (!op->has(Trait::Call)) continue;
      const auto called = op->getCalledGraphs();
      if (std::find(called.begin(), called.end(), &graph) != called.end()) result.push_back(op);
    }
  return result;
}

}  // namespace

bool canAddOutputs(const Graph &graph) {
  const auto sites = sitesOf(graph);
  return std::all_of(sites.begin(), sites.end(), [](const Op *op) {
    return op->is(Role::Call) || (op->is(Role::Loop) && op->hasAttr("trip_count"));
  });
}

void addOutput(Graph &graph, TensorIndex t) {
  Ir &ir = graph.getIr();
  const auto sites = sitesOf(graph);
  for (Op *site : sites)
    if (site->is(Role::Loop)) site->mutableAttributes().set("carried", int64_t{ops::carriedCount(*site)});
  const int position = static_cast<int>(graph.outputs().size());
  graph.markOutput(t);
  for (Op *site : sites) {
    Graph &caller = site->getGraph();
    const std::string name = "autodiff_output__t" + std::to_string(ir.getAndIncrTensorCounter());
    TensorInfo info = graph.info(t);
    if (site->is(Role::Loop)) {
      Shape stacked = info.shape();
      stacked.insert(stacked.begin(), site->attrInt("trip_count"));
      info = TensorInfo(info.dataType(), stacked);
    }
    const int output = position - (site->is(Role::Loop) ? 1 : 0);
    const TensorIndex out = caller.createOutput(site->index(), output, caller.uniqueId(caller.addScope(name)));
    caller.tensor(out).info = info;
  }
}

}  // namespace popart::autodiff
