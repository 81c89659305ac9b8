// What an op's row says it consists of.
#pragma once
#include <vector>

#include <popart/graph.hpp>

namespace popart {

// Adds the ops of the decomposition of `op`, which stays, to its graph. Returns a tensor of the same type and shape for
// every connected output. Throws internal_error for a rule that gives others.
std::vector<TensorIndex> decomposed(Graph &graph, const Op &op);

// The same, and the new ops take the place of `op`, also in program order. `op` and its outputs are erased.
std::vector<TensorIndex> replaceByDecomposition(Graph &graph, Op &op);

}  // namespace popart
