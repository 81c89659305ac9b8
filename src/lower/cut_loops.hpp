// Loops that follow one another, in chunks that can run at the same time. Loop B reads, row by row, what row-wise ops
// make of the rows that loop A stacks, so that its first iterations need no more than A's first ones:
//
//   A(0 … 63) ▶ ops ▶ B(0 … 63)   becomes   A(0 … 31) ▶ A(32 … 63)
//                                                   ╲          ╲
//                                                     ops ▶ B(0 … 31) ▶ ops ▶ B(32 … 63)
//
// A chunk is a loop of its own, which begins with what the chunk before carried. Ops between loops are copied for each
// chunk; whatever else reads a whole stack reads the chunks' rows joined.
#pragma once
#include "lower/choose_lanes.hpp"

namespace popart::lower {

// For a flat program, behind readRowsInPlace and before fusion. Auto: where the chunks are predicted to be clearly
// faster (executable/cost.hpp); Always: wherever the loops allow it; nothing happens with one thread. The numbers that
// the program computes stay the same to the bit. The choice is logged.
void cutLoops(Ir &flat, int threads, LaneRule rule);

}  // namespace popart::lower
