// Arena planning: places buffers with known lifetimes in one block of memory. Pure functions on intervals, without
// ops.
#pragma once
#include <cstdint>
#include <vector>

namespace popart::memory {

struct Interval {
  int64_t bytes = 0;
  int first = 0;  // live from `first` to `last`, both included
  int last = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // one per interval, multiples of kAlignment
  int64_t bytes = 0;             // size of the arena
  int64_t largestLiveSet = 0;    // sum of (aligned) buffers live at the worst time: a lower bound of every plan
};

constexpr int64_t kAlignment = 64;

// ArenaPlan::largestLiveSet of these intervals.
int64_t largestLiveSet(const std::vector<Interval> &intervals);

// Tries several placement orders (by start, by size, by lifetime) with best fit, improves the best by placing
// the buffers at its top first, and keeps the smallest arena. Time grows with n·log(n) for n buffers, plus a bounded
// search. Deterministic. Buffers whose lifetimes overlap never overlap in memory.
ArenaPlan planArena(const std::vector<Interval> &intervals);

}  // namespace popart::memory
