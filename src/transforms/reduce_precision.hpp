// 16-bit arithmetic with FLOAT variables (docs/decisions/0085-precision.md): a forward graph of FLOAT operators becomes
// one whose products, convolutions and what follows them compute in FLOAT16 or BFLOAT16. Run before differentiation:
// the gradient of a Cast brings each gradient to the FLOAT variable.
//
//   y = MatMul(x, w)        →   y/bfloat16 = MatMul(Cast(x), Cast(w));  y = Cast(y/bfloat16)
//   a = Relu(y)             →   a/bfloat16 = Relu(y/bfloat16);          a = Cast(a/bfloat16)
//   p = Softmax(a)          →   p = Softmax(a)
//
// Each tensor keeps its id, type and values (rounded once); what nothing reads of the casts goes with pruning.
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// Which operators compute in 16 bits is a fact of their rows (Precision, popart/opdef.hpp):
//   Reduced   always, where their float operands are FLOAT or `type`;
//   Follows   where an operand is of 16 bits already and every other one may be rounded: a parameter, a value that
//             parameters have a part in, or a constant within the range of `type`. A mask from the host may not: it
//             stays FLOAT, and so does what it is added to.
//   Full      never.
// `kept`: tensors that are read in FLOAT by all readers, because the host asks for their gradients.
// Loops and branches compute as before; graphs that are called are converted like the main graph.
// Returns the number of operators that compute in 16 bits. Throws popart::error when `type` is neither FLOAT16 nor
// BFLOAT16.
int reducePrecision(Graph &graph, DataType type, const std::set<TensorId> &kept);

}  // namespace popart::transforms
