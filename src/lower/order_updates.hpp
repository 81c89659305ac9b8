// orderUpdates: every reader of a variable's old value (in the body of a loop: of a carried value) runs before the op that
// makes the new one, wherever data allows. The new value can then be written straight into the variable or carry.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

void orderUpdates(Ir &flat);

// Element-wise updates run right after the gradient they wait for, so that few gradients are alive at once and each is
// still in cache. Changes the order of ops only.
void runUpdatesEarly(Ir &flat);

}  // namespace popart::lower
