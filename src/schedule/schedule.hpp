// Order of a graph's ops: topological, honours constraints, keeps program order where data dependences leave a choice.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <popart/ir.hpp>

namespace popart::schedule {

// Kahn's algorithm on plain node numbers: nodes 0..n-1, edges (before, after); among ready nodes the smallest key runs
// first (ties: smaller node). Returns fewer than n nodes when the edges have a cycle. O((n + e) log n).
std::vector<int> order(int n, const std::vector<std::pair<int, int>> &edges, const std::vector<int64_t> &keys);

// Topological order of the graph. In-place ops are ordered against other readers and writers of the same memory as
// the program states them (Op::Settings::sequence). Throws popart::error naming ops of a cycle.
std::vector<OpIndex> orderOps(const Graph &graph);

// The graphs that run: the main graph and what Call, Loop and If ops name, in the order of getAllGraphs. Bodies of ops
// made by fusion (Trait::Internal) describe a kernel and are left out, and so is what nothing calls.
std::vector<Graph *> programGraphs(const Ir &ir);

// When everything runs: the order of the ops of each graph of a program. A plain value.
struct Schedule {
  std::map<GraphId, std::vector<OpIndex>> orders;
  const std::vector<OpIndex> &of(const Graph &graph) const;  // throws internal_error for a graph that does not run
};
Schedule schedule(const Ir &ir);
// "<graph>:" and one line per op: its place, type and number, debug name.
std::string print(const Schedule &schedule, const Ir &ir);
// Throws internal_error unless every op of every graph that runs is listed exactly once, after the producers of its
// inputs and its constraints.
void verify(const Schedule &schedule, const Ir &ir);

}  // namespace popart::schedule
