// Values of a graph made known to a graph that one of its ops runs, in programs that are flat already.
#pragma once
#include <vector>

#include <popart/ir.hpp>

namespace popart::lower {

// Adds `t` to what `caller`, a Loop or an If, hands to `callee`, its body or one of its branches. Loops carry it
// unchanged. Returns the callee's input.
TensorIndex handDown(Op &caller, Graph &callee, TensorIndex t);
// The same of several values of a loop, which stand behind what it carried before.
std::vector<TensorIndex> handDown(Op &loop, Graph &body, const std::vector<TensorIndex> &values);

// Takes away the values that `loop` carries in the body's inputs `inner`. Nothing may read them, neither in the body,
// nor what the loop makes of them. Returns the loop, which is made anew.
Op &dropCarried(Op &loop, Graph &body, const std::vector<TensorIndex> &inner);

}  // namespace popart::lower
