// Order of a graph's ops: topological, honours constraints, keeps program order where data dependences leave a choice.
#pragma once
#include <cstdint>
#include <map>
#include <span>
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

// What holds that order: pairs of ops of which the first runs before the second, because of data, of a constraint of
// the program, or of memory that one of them changes.
std::vector<std::pair<OpIndex, OpIndex>> orderEdges(const Graph &graph);

// The graphs that run: the main graph and what Call, Loop and If ops name, in the order of getAllGraphs. Bodies of ops
// made by fusion (Trait::Internal) describe a kernel and are left out, and so is what nothing calls.
std::vector<Graph *> programGraphs(const Ir &ir);

// A part of a graph's order whose ops can run at the same time as those of the other lanes of its section.
struct Lane {
  std::string name;  // "2", or "0, 2" for stages that share threads
  int end = 0;       // position in the order behind its last op; it begins where the lane before ends
  int threads = 1;
};
struct Section {
  int begin = 0;  // position in the order
  std::vector<Lane> lanes;
  int end() const { return lanes.back().end; }
};

// When everything runs: the order of the ops of each graph of a program, which is valid for one thread, and the
// sections in which several can work. A plain value.
struct Schedule {
  std::map<GraphId, std::vector<OpIndex>> orders;
  std::map<GraphId, std::vector<Section>> sections;          // in their order; a graph without any is not listed
  const std::vector<OpIndex> &of(const Graph &graph) const;  // throws internal_error for a graph that does not run
  std::span<const Section> sectionsOf(const Graph &graph) const;
};
Schedule schedule(const Ir &ir);
// "<graph>:" and one line per op: its place, type and number, debug name. A line names each lane of a section, and its
// ops are indented.
std::string print(const Schedule &schedule, const Ir &ir);
// Throws internal_error unless every op of every graph that runs is listed exactly once, after the producers of its
// inputs and its constraints (which do not count between lanes of one section), and lanes are as lanes.hpp says.
void verify(const Schedule &schedule, const Ir &ir);

}  // namespace popart::schedule
