// assignLayouts: which tensors live in a layout their kernels like better than C order. Weights of matrix products
// become packed panels, together with their gradients, optimizer state and updated values, which only see element-wise
// work.
#pragma once
#include "lower/emit.hpp"

namespace popart::lower {

// A layout stays only where `backend` has a kernel for every op that sees it.
Layouts assignLayouts(const Ir &flat, const executable::Backend &backend);

}  // namespace popart::lower
