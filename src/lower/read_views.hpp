// Element-wise ops read strided views of their operands where they lie, instead of copies:
//
//   s = Slice(x);  y = Add(s, b)   →   y = FusedElementwise(x, b) { s = Slice(x);  y = Add(s, b) }
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Views (ops/shape/strided_view.hpp) of plain memory with one reader, which follows closely, so that the operand is
// not kept for much longer; none of variables, which an update may change before the reader runs. Only where `backend`
// takes the op that results. Flat graphs with their layouts only.
void readViews(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
