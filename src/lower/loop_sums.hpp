// Sums that a loop carries, such as gradients in the loop of a backward pass.
//
//   sum' = sum + GatherGrad(g, p)        becomes   sum' = DynamicAdd(sum, p, g): reads and writes one row, not all
//   sum' = sum + Transpose(a) b          becomes   sum = sum + Transpose(rows of a) (rows of b), after the loop
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// For a flat program, before loops read rows in place; for loops with a known number of iterations. A row is added
// alone if its position is a linear function of the iteration that stays inside the sum.
void addRowsInLoops(Ir &flat);

// For the same loops. A product moves after the loop if nothing else reads it or the sum, it has so few rows that
// adding it costs as much as computing it, `a` is a row of a stack, and each row is used once. Rows of `b` are stacked
// for it unless they already are. If the two stacks have opposite orders, as in the reverse direction of recurrent
// layers, one is reversed. The sum over rows is made in another order.
void multiplyAfterLoops(Ir &flat);

}  // namespace popart::lower
