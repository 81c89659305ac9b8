// Which sections of a schedule run as lanes, and on how many threads each lane.
#pragma once
#include "lower/kernels.hpp"

namespace popart::lower {

// Auto: where the prediction (executable/cost.hpp) is faster than its ops one after the other on all threads.
enum class LaneRule : uint8_t { Auto, Always, Never };

// `plain` with the sections that are worth it, or all that can be had. Lanes are joined, shortest first, as far as that
// is faster or there are fewer threads; `threads` are shared out so that the slowest lane is as fast as can be. With
// one thread there is no section. The choice is logged.
schedule::Schedule chooseLanes(const Ir &program, const schedule::Schedule &plain, const Kernels &kernels, int threads,
                               LaneRule rule);

}  // namespace popart::lower
