// Depth-first chains, tile by tile through several kernels: the op DepthFirst, its kernel, and the pass that makes it.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

// Largest number of operands of a kernel in a chain.
constexpr size_t kMostChainOperands = 32;

// The kernel of a DepthFirst op; null and the reason if a kernel in it cannot be split into the op's parts.
std::unique_ptr<executable::Kernel> depthFirstKernel(const executable::KernelRequest &request, std::string &reason);

// BackendPass "chainDepthFirst": sequences of ops whose kernels split into the same parts become DepthFirst ops.
void chainDepthFirst(Ir &program, const executable::Backend &backend, int threads);

}  // namespace popart::cpu
