// Writes results of serialised products into the joined tensor as soon as they are computed.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

//   Concat(a, b) -> y   becomes   SliceUpdate(memory, a) -> y1; SliceUpdate(y1, b) -> y
// for parts of products (hint kSerialised) that nothing else reads and for parts of batches (kBatchPart). Each update
// runs right after its part, so that memory holds only one part and the whole. Other concatenations do not change.
void joinPartsEarly(Ir &flat);

}  // namespace popart::lower
