// Stacks that loops read row by row.
//   Loop body: y = Gather(stack, last - iteration)   becomes   y = LoopRow(stack, iteration) {first = last, step = -1}
// for stacks that the loop does not change, where the row is a linear function of the iteration that stays inside of
// the stack for every iteration. A LoopRow takes neither time nor memory: the memory plan hands out the row itself.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// For a flat program, before fusion. Reads Gather and DynamicSlice along the first dimension; a row whose bytes do not
// keep the alignment of operands (memory::fitsRows) stays a copy.
void readRowsInPlace(Ir &flat);

}  // namespace popart::lower
