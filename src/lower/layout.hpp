// assignLayouts: which tensors live in a layout their kernels like better than C order. Weights of matrix products
// become packed panels, together with their gradients, optimizer state and updated values, which only see element-wise
// work.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// Sets Tensor::layout. A layout stays only where `backend` has a kernel for every op that sees it.
void assignLayouts(Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
