// Host streams of a program: one walk over the graphs that run.
#include "session/host_streams.hpp"

#include <set>

#include <popart/graph.hpp>

namespace popart::session {

HostStreams hostStreams(const Ir &ir) {
  HostStreams streams;
  std::set<const Graph *> seen{&ir.getMainGraph()};
  std::vector<const Graph *> waiting{&ir.getMainGraph()};
  while (!waiting.empty()) {
    const Graph &graph = *waiting.back();
    waiting.pop_back();
    for (const Op *op : graph.ops()) {
      if (op->is(Role::HostLoad)) streams.inputs.emplace(op->attrString("stream"), op->outInfo(0));
      if (op->is(Role::HostStore)) streams.outputs.emplace(op->attrString("stream"), op->inInfo(0));
      for (const Graph *called : op->getCalledGraphs())
        if (seen.insert(called).second) waiting.push_back(called);
    }
  }
  return streams;
}

}  // namespace popart::session
