// Splits loops that follow one another into chunks that can run at the same time. Loop B reads, row by row, results of
// row-wise ops on the rows that loop A stacks, so its first iterations need only A's first iterations:
//
//   A(0 … 63) ▶ ops ▶ B(0 … 63)   becomes   A(0 … 31) ▶ A(32 … 63)
//                                                   ╲          ╲
//                                                     ops ▶ B(0 … 31) ▶ ops ▶ B(32 … 63)
//
// A chunk is a separate loop that starts with the values that the previous chunk carried. Ops between loops are copied
// for each chunk; other readers of a whole stack read the joined rows of all chunks.
#pragma once
#include "lower/choose_lanes.hpp"

namespace popart::lower {

// For a flat program, after readRowsInPlace and before fusion. Auto: if the chunks are predicted to be clearly faster
// (executable/cost.hpp); Always: wherever the loops allow it; with one thread nothing changes. Results keep their bits.
// The choice is logged.
void cutLoops(Ir &flat, int threads, LaneRule rule);

}  // namespace popart::lower
