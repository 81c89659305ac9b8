// Products whose results are computed from pieces of their columns: the gates of recurrent cells, gated linear units.
#pragma once
#include <memory>
#include <string>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

// The kernel of a FusedMatMul [M, K]·[K, N] with few rows and FLOAT operands, whose epilogue is element-wise over
// results [M, U] and reads the product in pieces [M, U], or whole (N = U). Null and a reason for others.
std::unique_ptr<executable::Kernel> createGatedProduct(const executable::KernelRequest &request, std::string &reason);

}  // namespace popart::cpu
