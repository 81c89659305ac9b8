// The kernels that users have registered, as one of the backends.
#pragma once
#include "executable/host_kernel.hpp"

namespace popart {

const executable::Backend &userKernelBackend();  // refuses an op without a kernel, with a reason

}  // namespace popart
