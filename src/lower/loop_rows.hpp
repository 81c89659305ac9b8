// Stacks that loops read row by row.
//   Loop body: y = Gather(stack, last - iteration)   becomes   y = LoopRow(stack, iteration) {first = last, step = -1}
// for stacks that the loop does not change, if the row is a linear function of the iteration that stays inside the
// stack in every iteration. A LoopRow needs neither time nor memory: the memory plan returns the row itself.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// For a flat program, before fusion. Replaces Gather and DynamicSlice along the first dimension. A row whose size does
// not keep the alignment of operands (memory::fitsRows) is still copied.
void readRowsInPlace(Ir &flat);

}  // namespace popart::lower
