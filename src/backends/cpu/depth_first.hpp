// Chains of kernels that run part by part: the op DepthFirst, its kernel, and the pass that makes it.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

// Most operands of one kernel in a chain.
constexpr size_t kMostChainOperands = 32;

// The kernel of a DepthFirst op; null and the reason when a kernel in it does not fall into the op's parts.
std::unique_ptr<executable::Kernel> depthFirstKernel(const executable::KernelRequest &request, std::string &reason);

// BackendPass "chainDepthFirst": runs of ops whose kernels fall into the same parts become DepthFirst ops.
void chainDepthFirst(Ir &program, const executable::Backend &backend, int threads);

}  // namespace popart::cpu
