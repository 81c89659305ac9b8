// orderUpdates: every reader of a variable's old value (in a loop body: of a loop-carried value) runs before the op
// that makes the new one, wherever data dependences allow. The update can then be done in place.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

void orderUpdates(Ir &flat);

// Element-wise updates run right after the gradient they depend on, so that few gradients are live at once and each is
// still in cache. Changes the order of ops only.
void runUpdatesEarly(Ir &flat);

}  // namespace popart::lower
