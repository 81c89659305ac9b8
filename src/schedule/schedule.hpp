// Order of a graph's ops: topological, obeys constraints, and keeps program order where both leave a choice.
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
// first (ties: smaller node). Returns fewer than n nodes if the edges have a cycle. O((n + e) log n).
std::vector<int> order(int n, const std::vector<std::pair<int, int>> &edges, const std::vector<int64_t> &keys);

// Topological order of the graph. In-place ops keep the order of the program (Op::Settings::sequence) relative to other
// readers and writers of the same memory. Throws popart::error naming ops of a cycle.
std::vector<OpIndex> orderOps(const Graph &graph);

// The reasons for that order: pairs of ops of which the first must run before the second, because of data, a constraint
// of the program, or memory that one of them changes.
std::vector<std::pair<OpIndex, OpIndex>> orderEdges(const Graph &graph);

// The graphs that run: the main graph and those that Call, Loop and If ops name, in the order of getAllGraphs. Bodies
// of fused ops (Trait::Internal) describe a kernel and are left out; so are graphs that nothing calls.
std::vector<Graph *> programGraphs(const Ir &ir);

// A range of a graph's order whose ops can run at the same time as the other lanes of its section.
struct Lane {
  std::string name;  // "2", or "0, 2" for stages that share threads
  int end = 0;       // position after its last op; it starts where the previous lane ends
  int threads = 1;
};
struct Section {
  int begin = 0;  // position in the order
  std::vector<Lane> lanes;
  int end() const { return lanes.back().end; }
};

// When everything runs: the order of the ops of each graph of a program, which is valid for one thread, and the
// sections that several threads can run. A plain value.
struct Schedule {
  std::map<GraphId, std::vector<OpIndex>> orders;
  std::map<GraphId, std::vector<Section>> sections;          // in order; graphs without sections are not listed
  const std::vector<OpIndex> &of(const Graph &graph) const;  // throws internal_error for a graph that does not run
  std::span<const Section> sectionsOf(const Graph &graph) const;
};
Schedule schedule(const Ir &ir);
// "<graph>:" and one line per op: its position, type and number, debug name. A line names each lane of a section; the
// ops of a lane are indented.
std::string print(const Schedule &schedule, const Ir &ir);
// Throws internal_error unless every op of every graph that runs is listed exactly once, after the producers of its
// inputs and after its constraints (except between lanes of one section), and lanes are as lanes.hpp describes.
void verify(const Schedule &schedule, const Ir &ir);

}  // namespace popart::schedule
