// Whether results depend on an order that the graph does not determine.
#pragma once
#include <popart/graph.hpp>

namespace popart::session {

// Throws popart::error if an op modifies memory that another op reads, and nothing orders the two.
void checkInplaceAmbiguity(const Graph &graph);

}  // namespace popart::session
