// Values of a graph made known to a graph that one of its ops runs, in programs that are flat already.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// Adds `t` to what `caller`, a Loop or an If, hands to `callee`, its body or one of its branches. Loops carry it
// unchanged. Returns the callee's input.
TensorIndex handDown(Op &caller, Graph &callee, TensorIndex t);

// Takes away the value that `loop` carries in the body's input `inner`. Nothing may read it, neither in the body, nor
// what the loop makes of it. Returns the loop, which is made anew.
Op &dropCarried(Op &loop, Graph &body, TensorIndex inner);

}  // namespace popart::lower
