// Kernels of collectives over replicas, for all devices of the host.
#pragma once
#include "executable/collectives.hpp"
#include "executable/kernel.hpp"

namespace popart::collectives {

const executable::Backend &backend();  // "collectives"

// The kernel of a CollectiveUpdate whose body is `update` and needs `scratchBytes`; called by the backend that has
// kernels for the body. Returns nullptr, with a reason, if no collective supports it.
std::unique_ptr<executable::Kernel> updateKernel(const executable::KernelRequest &request,
                                                 std::shared_ptr<const executable::Update> update, int64_t scratchBytes,
                                                 std::string &reason);

}  // namespace popart::collectives
