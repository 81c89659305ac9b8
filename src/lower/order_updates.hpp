// orderUpdates: every reader of a variable's old value (in a loop body: of a loop-carried value) runs before the op
// that makes the new one, if data dependences allow it. The update can then be done in place.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// Whether an op has no effect and reads only leaves and results of other such ops (`ofLeaves`, by op): a step counter,
// a load from remote memory. runUpdatesEarly moves it to its first reader.
bool dependsOnLeavesAlone(const Graph &graph, const Op &op, const std::vector<char> &ofLeaves);

void orderUpdates(Ir &flat);

// Runs element-wise updates right after the gradient they depend on, so that few gradients are live at the same time,
// and each is still in the cache. Changes only the order of ops.
void runUpdatesEarly(Ir &flat);

}  // namespace popart::lower
