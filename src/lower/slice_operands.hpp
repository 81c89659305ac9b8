// Slices move in front of element-wise ops, so that what reads the pieces can be computed with them.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

//   s = Add(x, y); a = Sigmoid(s[:, 0:4]); b = Tanh(s[:, 4:8])
//   →  a = Sigmoid(Add(x[:, 0:4], y[:, 0:4])); b = Tanh(Add(x[:, 4:8], y[:, 4:8]))
//
// for slices of the last dimension, which do not overlap, when they are all that reads the result and only element-wise
// ops of their shape read them. Each element is computed once, as before. Flat graphs only; runs before
// fuseElementwise.
void sliceOperands(Ir &flat);

}  // namespace popart::lower
