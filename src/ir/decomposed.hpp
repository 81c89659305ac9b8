// What an op's row says it consists of.
#pragma once
#include <vector>

#include <popart/graph.hpp>

namespace popart {

// Adds the ops of the decomposition of `op`, which stays, to its graph. Returns a tensor of the same type and shape for
// every connected output. Throws internal_error for a rule that gives others.
std::vector<TensorIndex> decomposed(Graph &graph, const Op &op);

}  // namespace popart
