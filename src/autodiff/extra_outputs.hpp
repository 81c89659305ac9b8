// Adds outputs to a graph that is already called, so that its gradient graph can read more of its values. Invariant:
// outputs are appended, so existing positions do not change; every call site gets the new output.
#pragma once
#include <popart/graph.hpp>

namespace popart::autodiff {

// Whether addOutput is possible: only Call ops, and Loop ops with a bound of their iterations, run the graph.
bool canAddOutputs(const Graph &graph);

// Makes `t` the last output of `graph`. A Call of it gets the value; a Loop gets the values of all iterations, stacked
// along a new first dimension (its bound; only iterations that ran are written). They are named
// "autodiff_output__t<K>".
void addOutput(Graph &graph, TensorIndex t);

}  // namespace popart::autodiff
