// 16-bit arithmetic with FLOAT variables (docs/decisions/0085-precision.md): in a forward graph of FLOAT operators, the
// products, convolutions and operators after them compute in FLOAT16 or BFLOAT16. Runs before differentiation, so that
// the gradient of a Cast converts each gradient to the type of the FLOAT variable.
//
//   y = MatMul(x, w)        →   y/bfloat16 = MatMul(Cast(x), Cast(w));  y = Cast(y/bfloat16)
//   a = Relu(y)             →   a/bfloat16 = Relu(y/bfloat16);          a = Cast(a/bfloat16)
//   p = Softmax(a)          →   p = Softmax(a)
//
// Each tensor keeps its id, type and values (rounded once); pruning removes casts that nothing reads.
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// The row of an operator says whether it computes in 16 bits (Precision, popart/opdef.hpp):
//   Reduced   always, if its float operands are FLOAT or `type`;
//   Follows   if an operand is already 16-bit and every other one may be rounded: a parameter, a value that depends on
//             parameters, or a constant within the range of `type`. A mask from the host may not be rounded: it stays
//             FLOAT, and so does the op that adds it.
//   Full      never.
// `kept`: tensors that all readers read in FLOAT, because the host asks for their gradients.
// Loops and branches compute as before; graphs that are called are converted like the main graph.
// Returns the number of operators that compute in 16 bits. Throws popart::error if `type` is neither FLOAT16 nor
// BFLOAT16.
int reducePrecision(Graph &graph, DataType type, const std::set<TensorId> &kept);

}  // namespace popart::transforms
