// Element-wise ops read strided views of their operands in place, instead of copies:
//
//   s = Slice(x);  y = Add(s, b)   →   y = FusedElementwise(x, b) { s = Slice(x);  y = Add(s, b) }
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// For views (ops/shape/strided_view.hpp) of plain memory with one reader. The reader must follow closely, so that the
// operand is not kept much longer. Not for views of variables, which an update may change before the reader runs. Only
// if `backend` accepts the resulting op. Only flat graphs with layouts.
void readViews(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
