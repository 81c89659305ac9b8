// Reads of rings need not wait for the writes of their cycle.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

//   ring' = write(ring, x) <ring = "writes">            ring' = write(ring, x)
//   y = read(ring') <ring = "reads">          becomes   y = read(ring)
// in one cycle of a pipeline (kCycle), since the two never take the same row (kRing): the stage that reads can then run
// beside the one that writes. What was written in an earlier cycle is read as before.
void readRingsFirst(Ir &flat);

}  // namespace popart::lower
