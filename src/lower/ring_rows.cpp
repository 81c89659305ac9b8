// See ring_rows.hpp.
#include "lower/ring_rows.hpp"

#include "ir/hints.hpp"

namespace popart::lower {
namespace {

std::string hintOf(const Op &op, const char *name) {
  const auto found = op.settings.hints.find(name);
  return found == op.settings.hints.end() ? "" : found->second;
}

}  // namespace

void readRingsFirst(Ir &flat) {
  for (Graph *graph : flat.getAllGraphs())
    for (Op *op : graph->ops()) {
      if (hintOf(*op, kRing) != kReadsRow) continue;
      for (;;) {
        const Tensor &ring = graph->tensor(op->inputs()[0]);
        if (!ring.hasProducer()) break;
        const Op &writer = *ring.getProducer();
        if (hintOf(writer, kRing) != kWritesRow || hintOf(writer, kCycle) != hintOf(*op, kCycle)) break;
        graph->replaceUse({op->index(), 0}, writer.inputs()[0]);
        graph->addConstraint(op->index(), writer.index());  // so that the writer can work in the ring's memory
      }
    }
}

}  // namespace popart::lower
