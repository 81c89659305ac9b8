// Further outputs of a graph that is already called: how values of a forward graph reach its gradient graph.
// Invariant: outputs are appended, so the positions of those a graph has stay; every call site gets the new one.
#pragma once
#include <popart/graph.hpp>

namespace popart::autodiff {

// Whether addOutput is possible: only Call ops, and Loop ops with a bound of their iterations, run the graph.
bool canAddOutputs(const Graph &graph);

// Makes `t` the last output of `graph`. A Call of it gains the value, a Loop the values of all iterations stacked along
// a new first dimension (as many as its bound; those of iterations that were run are written). They are named
// "autodiff_output__t<K>".
void addOutput(Graph &graph, TensorIndex t);

}  // namespace popart::autodiff
