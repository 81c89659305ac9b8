// See work.hpp. Loops without a known number of iterations count as too much.
#include "work.hpp"

namespace popart::fuzz {

int64_t work(const Graph &graph) {
  int64_t total = 0;
  for (const Tensor *tensor : graph.tensors()) {
    if (tensor->info.nelms() > kMostElements) return kMostWork + 1;
    total += tensor->info.nelms();
  }
  for (const Op *op : graph.ops()) {
    const int64_t times = op->is("Loop") ? op->attributes().getAttribute<int64_t>("trip_count", -1) : 1;
    if (times < 0) return kMostWork + 1;
    for (const Graph *called : op->getCalledGraphs()) {
      const int64_t once = work(*called);
      if (once > kMostWork || times > kMostWork) return kMostWork + 1;
      total += times * once;
    }
    if (total > kMostWork) break;
  }
  return total;
}

}  // namespace popart::fuzz
