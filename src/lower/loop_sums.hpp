// Sums that a loop carries: gradients, in the loop of a backward pass.
//
//   sum' = sum + GatherGrad(g, p)        becomes   sum' = DynamicAdd(sum, p, g): one row is read and written, not all
//   sum' = sum + Transpose(a) b          becomes   sum = sum + Transpose(rows of a) (rows of b), behind the loop
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// For a flat program, before loops read rows in place, of loops with a known number of iterations. A row is added where
// its position is a linear function of the iteration that stays inside of the sum.
void addRowsInLoops(Ir &flat);

// The same loops. A product moves behind the loop when nothing else reads it or the sum, it has so few rows that adding
// it up costs as much as computing it, `a` is a row of a stack, and each row is taken once. Rows of `b` are stacked for
// that unless they lie in a stack already; one stack is reversed when the two have opposite orders, as in the reverse
// direction of recurrent layers. The order of the sum over rows is another one.
void multiplyAfterLoops(Ir &flat);

}  // namespace popart::lower
