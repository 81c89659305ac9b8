// Reads of ring buffers need not wait for the writes of their cycle.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

//   ring' = write(ring, x) <ring = "writes">            ring' = write(ring, x)
//   y = read(ring') <ring = "reads">          becomes   y = read(ring)
// in one cycle of a pipeline (kCycle), because the two never access the same row (kRing). The reading stage can then
// run at the same time as the writing stage. Rows written in earlier cycles are read as before.
void readRingsFirst(Ir &flat);

}  // namespace popart::lower
