// Moves slices before element-wise ops, so that the readers of the pieces can be computed together with them.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

//   s = Add(x, y); a = Sigmoid(s[:, 0:4]); b = Tanh(s[:, 4:8])
//   →  a = Sigmoid(Add(x[:, 0:4], y[:, 0:4])); b = Tanh(Add(x[:, 4:8], y[:, 4:8]))
//
// for slices of the last dimension that do not overlap, if they are the only readers of the result and only
// element-wise ops of their shape read them. Each element is still computed once. Flat graphs only; runs before
// fuseElementwise.
void sliceOperands(Ir &flat);

}  // namespace popart::lower
