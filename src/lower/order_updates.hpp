// orderUpdates: every reader of a variable's old value (in a loop body: of a loop-carried value) runs before the op
// that makes the new one, wherever data dependences allow. The update can then be done in place.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// Whether an op reads nothing that the program makes, but for results of other such ops (`ofLeaves`, by op), and has no
// effect: a step counter, a load from remote memory. runUpdatesEarly runs it where it is first read.
bool dependsOnLeavesAlone(const Graph &graph, const Op &op, const std::vector<char> &ofLeaves);

void orderUpdates(Ir &flat);

// Element-wise updates run right after the gradient they depend on, so that few gradients are live at once and each is
// still in cache. Changes the order of ops only.
void runUpdatesEarly(Ir &flat);

}  // namespace popart::lower
