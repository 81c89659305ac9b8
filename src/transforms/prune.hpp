// prune: removes ops that lead neither to a kept tensor nor to an effect (host and remote stores, prints, writes to
// variables).
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// Keeps the tensors named in `anchors` and the graph's outputs. Variables, streams and inputs always stay; constants
// without readers are removed. Returns the number of ops removed.
int prune(Graph &graph, const std::set<TensorId> &anchors);

// Whether `op` has effects other than its results: it has a side effect, writes to an input, or calls a graph whose
// ops do.
bool hasEffect(const Op &op);

}  // namespace popart::transforms
