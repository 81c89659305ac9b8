// assignLayouts: which tensors are stored in a layout that their kernels prefer to C order. Weights of matrix products
// become packed panels, together with their gradients, optimizer state and updated values, which only element-wise ops
// read.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Sets Tensor::layout. A layout stays only where `backend` has a kernel for every op that sees it.
void assignLayouts(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
