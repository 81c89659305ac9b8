// Updates of weights and optimizer state inside the collective of the gradient: each replica updates a share of the
// variables that are equal on all replicas, instead of all of them.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

//   g = CollectiveReduce(x);  w1, m1 = FusedElementwise(g, w, m, …)   →   w1, m1 = CollectiveUpdate(x, w, m, …)
// if nothing else reads g, `backend` has a kernel, and
//   - all other operands are the same on the replicas of the group, whatever their data: variables with one value for
//     the group that only such updates change, and values computed from them and from constants;
//   - each result is the new value of an operand (a variable, or a value that a loop carries), or has the type and
//     shape of x and replaces it in memory.
// Programs whose collectives have different groups do not change. Results keep their bits: each element is reduced in
// the same order and updated by the same arithmetic.
void updateWhereReplicasMeet(Ir &program, const executable::Backend &backend);

}  // namespace popart::lower
