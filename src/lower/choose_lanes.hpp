// Which sections of a schedule run as lanes, and on how many threads each lane.
#pragma once
#include "lower/kernels.hpp"

namespace popart::lower {

// Auto: if sections are predicted (executable/cost.hpp) to be clearly faster than their ops in order on all threads.
// Sections of stages are decided together, those of loops one by one.
enum class LaneRule : uint8_t { Auto, Always, Never };

// Returns `plain`, or the program with all possible sections. Lanes are joined, shortest first, while that is faster or
// there are fewer threads than lanes. `threads` are divided so that the slowest lane is as fast as possible. With one
// thread there are no sections. The choice is logged.
schedule::Schedule chooseLanes(const Ir &program, const schedule::Schedule &plain, const Kernels &kernels, int threads,
                               LaneRule rule);

}  // namespace popart::lower
