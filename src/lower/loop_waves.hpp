// Finds loops of a graph that can run in chunks, one after the other: see cut_loops.hpp.
#pragma once
#include <set>
#include <vector>

#include <popart/ir.hpp>

namespace popart::lower {

// What a chunk reads of an operand: all of it, the rows that an earlier chunk made, or its rows of a whole tensor.
enum class OperandRows : uint8_t { All, Made, Slice };

// A loop of a wave, or a row-wise op between two of them.
struct WavePart {
  Op *op;
  int depth;                      // by how many chunks it is later than the first loops
  std::vector<OperandRows> rows;  // by input
  bool isLoop() const;
  InIndex firstMade() const;  // the first input whose rows are made in the wave; -1: none
};

// Loops of the same number of iterations, connected by stacks that are written and read row by row.
struct Wave {
  int64_t trips = 0;
  int depth = 0;                   // length of the longest chain of loops
  std::vector<WavePart> parts;     // in the order in which they run
  std::vector<TensorIndex> whole;  // stacks, and results of ops on them, that ops outside the wave read too
  std::set<OpIndex> kept;          // views that stay, because their result is in `whole`
};

// The waves with at least two loops in a graph of a flat program; they are disjoint. One walk over the ops.
std::vector<Wave> findWaves(const Graph &graph);

}  // namespace popart::lower
