// Kernels of collectives over replicas, for every device of the host.
#pragma once
#include "executable/kernel.hpp"

namespace popart::collectives {

const executable::Backend &backend();  // "collectives"

}  // namespace popart::collectives
