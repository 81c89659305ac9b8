// assignLayouts: which tensors are stored in a layout that their kernels prefer to C order. Weights of matrix products
// become packed panels, together with their gradients, optimizer state and updated values, which only element-wise ops
// read.
#pragma once
#include <popart/ir.hpp>

#include "lower/kernel_cache.hpp"

namespace popart::lower {

// Sets Tensor::layout to what the first backend likes. A layout stays only where a backend has a kernel for every op
// that sees it.
void assignLayouts(Ir &flat, const Backends &backends);

}  // namespace popart::lower
