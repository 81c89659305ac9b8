// The kernels users registered, as a backend among others.
#pragma once
#include "executable/kernel.hpp"

namespace popart {

const executable::Backend &userKernelBackend();  // refuses an op without kernel, with a reason

// Throws runtime_error with the first exception a user kernel has thrown since the last call, if there was one. Kernels
// run where nothing may be thrown, so Session::run calls this when the step is over.
void throwKernelFailure();

}  // namespace popart
