// Which sections of a schedule run as lanes, and on how many threads each lane.
#pragma once
#include "lower/kernels.hpp"

namespace popart::lower {

// Auto: where the sections are predicted (executable/cost.hpp) to be clearly faster than their ops one after the other
// on all threads; those of stages all together, those of loops each on its own.
enum class LaneRule : uint8_t { Auto, Always, Never };

// `plain`, or the program with all sections that can be had. Lanes are joined, shortest first, as far as that
// is faster or there are fewer threads; `threads` are shared out so that the slowest lane is as fast as can be. With
// one thread there is no section. The choice is logged.
schedule::Schedule chooseLanes(const Ir &program, const schedule::Schedule &plain, const Kernels &kernels, int threads,
                               LaneRule rule);

}  // namespace popart::lower
