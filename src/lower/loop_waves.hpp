// Which loops of a graph can run in chunks, one behind the other: see cut_loops.hpp.
#pragma once
#include <set>
#include <vector>

#include <popart/ir.hpp>

namespace popart::lower {

// What a chunk reads of an operand: all of it, its rows as a chunk in front made them, or its rows of what is whole.
enum class OperandRows : uint8_t { All, Made, Slice };

// A loop of a wave, or a row-wise op that stands between two of them.
struct WavePart {
  Op *op;
  int depth;                      // how many chunks behind the first loops it runs
  std::vector<OperandRows> rows;  // by input
  bool isLoop() const;
  InIndex firstMade() const;  // the first input of which rows are made; -1: none
};

// Loops of the same number of iterations that hang together by stacks which are written and read row by row.
struct Wave {
  int64_t trips = 0;
  int depth = 0;                   // loops one behind the other
  std::vector<WavePart> parts;     // in the order in which they run
  std::vector<TensorIndex> whole;  // stacks, and what ops make of them, that something else reads as well
  std::set<OpIndex> kept;          // views that stay, because they make one of `whole`
};

// The waves of two loops and more of a graph of a flat program, apart from one another. One walk over the ops.
std::vector<Wave> findWaves(const Graph &graph);

}  // namespace popart::lower
