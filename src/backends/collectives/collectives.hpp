// Kernels of collectives over replicas, for every device of the host.
#pragma once
#include "executable/collectives.hpp"
#include "executable/kernel.hpp"

namespace popart::collectives {

const executable::Backend &backend();  // "collectives"

// The kernel of a CollectiveUpdate whose body is `update`, which takes so much scratch memory; made by the backend that
// has kernels for the body. nullptr and a reason when no collective can do it.
std::unique_ptr<executable::Kernel> updateKernel(const executable::KernelRequest &request,
                                                 std::shared_ptr<const executable::Update> update, int64_t scratchBytes,
                                                 std::string &reason);

}  // namespace popart::collectives
