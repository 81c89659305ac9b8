// The kernels users registered, as a backend among others.
#pragma once
#include "executable/host_kernel.hpp"

namespace popart {

const executable::Backend &userKernelBackend();  // refuses an op without kernel, with a reason

}  // namespace popart
