// The packing that the counting device's kernels want for weights, and the backend that makes those kernels.
#pragma once
#include <memory>

#include "executable/kernel.hpp"

namespace popart::test {

const executable::Layout *reversed();
// Kernels of `inner`, which outlives it, for operands that lie plain or reversed.
std::unique_ptr<executable::Backend> reversingBackend(const executable::Backend &inner);

}  // namespace popart::test
