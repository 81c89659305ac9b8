// Order of a graph's ops: topological, honours constraints, and keeps program order where data leaves a choice.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include <popart/graph.hpp>

namespace popart::schedule {

// Kahn's algorithm on plain node numbers: nodes 0..n-1, edges (before, after); among ready nodes the smallest key runs
// first (ties: smaller node). Returns fewer than n nodes when the edges have a cycle. O((n + e) log n).
std::vector<int> order(int n, const std::vector<std::pair<int, int>> &edges, const std::vector<int64_t> &keys);

// Topological order of the graph. In-place ops are ordered against the other readers and writers of the same memory as
// the program states them (Op::Settings::sequence). Throws popart::error naming ops of a cycle.
std::vector<OpIndex> schedule(const Graph &graph);

}  // namespace popart::schedule
