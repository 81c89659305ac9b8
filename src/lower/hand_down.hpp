// Passes values of a graph into a graph that one of its ops runs, in flat programs.
#pragma once
#include <vector>

#include <popart/ir.hpp>

namespace popart::lower {

// Adds `t` to the values that `caller`, a Loop or an If, passes to `callee`, its body or one of its branches. Loops
// carry it unchanged. Returns the callee's input.
TensorIndex handDown(Op &caller, Graph &callee, TensorIndex t);
// The same for several values of a loop; they follow the values that it already carries.
std::vector<TensorIndex> handDown(Op &loop, Graph &body, const std::vector<TensorIndex> &values);

// Removes the values that `loop` carries in the body's inputs `inner`. Nothing may read them, neither in the body nor
// after the loop. Returns the loop, which is made again.
Op &dropCarried(Op &loop, Graph &body, const std::vector<TensorIndex> &inner);

}  // namespace popart::lower
