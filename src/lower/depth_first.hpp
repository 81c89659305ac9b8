// depth first: kernels that follow one another and fall into the same independent parts (the products, softmax and
// element-wise work of attention, by batch and head) become one kernel that takes part after part through all of them.
// What they pass on then stays in the cache of one core, and what nobody else reads needs memory for one part per
// thread only.
#pragma once
#include <unordered_map>
#include <vector>

#include "executable/executable.hpp"
#include "lower/storage.hpp"

namespace popart::lower {

// Times of kernels in the numbering of `storages`.
using KernelTimes = std::unordered_map<const executable::Kernel *, int>;

// Replaces runs of kernel steps; operands of steps are numbers of storages, sharing is decided. Storages of a chain
// live as long as the chain runs; those inside it lose their place in the arena. Bits do not change.
// Returns the largest scratch memory a chain needs per thread, in bytes.
int64_t chainDepthFirst(std::vector<executable::Step> &steps, const KernelTimes &times, Storages &storages,
                        int threads);

}  // namespace popart::lower
