// Orders of ops and graphs for the text form, checks and comparison. The scheduler is in schedule/.
#pragma once
#include <vector>

#include <popart/ir.hpp>

namespace popart {

// Ops by program position (Op::Settings::sequence, else creation index; ties by creation).
std::vector<Op *> programOrder(const Graph &graph);

// A topological order of data edges and constraints; program order decides between ops that are free. If there is a
// cycle, the result has fewer ops than the graph. Edges must be consistent (the edge rules of verify).
std::vector<Op *> dataOrder(const Graph &graph);

// Callees before their callers. If graphs call themselves, the result has fewer graphs than the Ir. Throws
// popart::error if an op names a graph that does not exist.
std::vector<Graph *> calleesFirst(const Ir &ir);

}  // namespace popart
