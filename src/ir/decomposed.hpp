// The decomposition of an op, as its row defines it.
#pragma once
#include <vector>

#include <popart/graph.hpp>

namespace popart {

// Adds the ops of the decomposition of `op`, which is kept, to its graph. Returns a tensor of the same type and shape
// for every connected output. Throws internal_error if the rule returns others.
std::vector<TensorIndex> decomposed(Graph &graph, const Op &op);

// The same, but the new ops replace `op`, also in program order. Erases `op` and its outputs.
std::vector<TensorIndex> replaceByDecomposition(Graph &graph, Op &op);

}  // namespace popart
