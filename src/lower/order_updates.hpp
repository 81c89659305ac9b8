// orderUpdates: every reader of a variable's old value runs before the op that makes the new one, wherever data allows.
// The new value can then be written straight into the variable.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

void orderUpdates(Ir &flat);

}  // namespace popart::lower
