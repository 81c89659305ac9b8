// Parts of concatenations are written where the result has them, so that nothing copies them:
//
//   a = FusedConv(x, w); y = Concat(a, b)   →   a, of layout channels_last_of<channels of y>, is a slice of y's memory
//
// Concatenations of concatenations have one memory: each part is written once, and readers of an inner result read rows
// of the outer one.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Of FLOAT tensors along channels, channels last. A part keeps its own memory, and is copied, where `backend` has no
// kernel of its producer or of one of its readers for rows that are as far apart as those of the result; where it is a
// part of two results, or twice of one; where graphs pass it on; and where the memory of the whole result, which is
// taken from the first part on, would make more memory live at one time. A Concat whose first or last operands are
// those of another one reads the other's result first. Flat graphs with their layouts only.
void joinInPlace(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
