// Orders of ops and graphs that the text form, the checks and the comparison share. Scheduling proper is in schedule/.
#pragma once
#include <vector>

#include <popart/ir.hpp>

namespace popart {

// Ops by program position (Op::Settings::sequence, else creation index; ties by creation).
std::vector<Op *> programOrder(const Graph &graph);

// A topological order of the data edges and constraints, program order where they leave a choice. Shorter than the
// number of ops when there is a cycle. Edges must be consistent (verify's edge rules).
std::vector<Op *> dataOrder(const Graph &graph);

// Every graph after the graphs it calls. Shorter than the number of graphs when graphs call themselves.
// Throws popart::error when an op names a graph that does not exist.
std::vector<Graph *> calleesFirst(const Ir &ir);

}  // namespace popart
