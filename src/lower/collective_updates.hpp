// Updates of weights and optimizer state in the collective over the gradient: each replica updates a share of what all
// of them have alike, instead of all of it.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   g = CollectiveReduce(x);  w1, m1 = FusedElementwise(g, w, m, …)   →   w1, m1 = CollectiveUpdate(x, w, m, …)
// where nothing else reads g, `backend` has a kernel, and
//   - all other operands are the same on the replicas of the group, whatever data these are given: variables of one
//     value for the group, that nothing changes but such updates, and what is computed from them and from constants;
//   - each result is the new value of an operand (of a variable, or of a value that a loop carries), or has the type
//     and shape of x, in whose place it is made.
// Programs whose collectives have groups of several kinds stay as they are. The bits are those of before: each element
// is joined in the same order and updated by the same arithmetic.
void updateWhereReplicasMeet(Ir &program, const executable::Backend &backend);

}  // namespace popart::lower
