// assignLayouts: stores tensors in layouts that their kernels prefer to C order. Weights of matrix products become
// packed panels, together with their gradients, optimizer state and updated values, which only element-wise ops
// read.
#pragma once
#include <popart/ir.hpp>

#include "lower/kernel_cache.hpp"

namespace popart::lower {

// Sets Tensor::layout to the preference of the first backend. A layout is kept only if a backend has a kernel for every
// op that uses it.
void assignLayouts(Ir &flat, const Backends &backends);

}  // namespace popart::lower
