// Writes parts of concatenations directly into the result, so that nothing copies them:
//
//   a = FusedConv(x, w); y = Concat(a, b)   →   a, of layout channels_last_of<channels of y>, is a slice of y's memory
//
// Concatenations of concatenations share one memory: each part is written once, and readers of an inner result read
// rows of the outer one.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// For FLOAT tensors along channels, channels last. A part keeps its own memory, and is copied, if `backend` has no
// kernel of its producer or of a reader for rows with the distance of the result's rows; if it is a part of two
// results, or twice of one; if it is passed to other graphs; or if the memory of the whole result, which is needed from
// the first part on, would increase the memory that is live at one time, with what kernels use while they run
// (memory::temporaryBytes). A Concat whose first or last operands are those of another one first reads the other's
// result. Only flat graphs with layouts.
void joinInPlace(Ir &flat, const executable::Backend &backend, int threads);

}  // namespace popart::lower
