// Results of serialised products go where they are joined as soon as they are there.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

//   Concat(a, b) -> y   becomes   SliceUpdate(memory, a) -> y1; SliceUpdate(y1, b) -> y
// for parts of products (hint kSerialised) that nothing else reads and for parts of batches (kBatchPart), each update
// right after its part, so that only one part is in memory beside the whole. Other concatenations stay as they are.
void joinPartsEarly(Ir &flat);

}  // namespace popart::lower
