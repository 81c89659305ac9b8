// The number of tasks into which a kernel is split: enough to keep up to 64 threads busy. Dynamic claiming balances the
// load, and a claim costs much less than the smallest task.
#pragma once
#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/ceil_div.hpp"

namespace popart::cpu {

constexpr int64_t kMostThreads = 64, kMostTasks = 4 * kMostThreads;

// The least operations of a task of products: about 1 us (executable/cost.cpp), several times a thread's wake-up.
constexpr int64_t kSmallestTaskFlops = 100'000;

// Leaves for `work` (elements or bytes) made of `pieces` independent pieces, with at least `least` of the work per
// leaf; at least 1. A leaf is a part of a sum: their number determines the order of the sum, so it depends only on the
// shape.
inline int64_t leafCount(int64_t work, int64_t least, int64_t pieces) {
  return std::clamp<int64_t>(std::min(work / least, pieces), 1, kMostTasks);
}

// Tasks of the same work, for kernels whose total work does not grow with their number. With more tasks than threads,
// the last turn of tasks may leave most threads idle: such numbers become multiples of 64.
inline int64_t taskCount(int64_t work, int64_t least, int64_t pieces) {
  const int64_t count = leafCount(work, least, pieces);
  return count <= kMostThreads ? count : std::min(ceilDiv(count, kMostThreads) * kMostThreads, pieces);
}

// Ranges of `length` neighbouring columns (channels) for work that is already split `others` times: enough for
// `threads` threads, of `wide` columns or more; of `narrow` columns or more if there would be fewer tasks than threads.
// At least 1. For kernels that read rows piece by piece and are faster with wide ranges.
inline int64_t columnRanges(int64_t length, int64_t others, int64_t wide, int64_t narrow, int threads) {
  others = std::max<int64_t>(1, others);
  const int64_t width = others * (length / wide) < threads ? narrow : wide;
  return std::clamp<int64_t>(ceilDiv(int64_t{4} * threads, others), 1, std::max<int64_t>(1, length / width));
}

}  // namespace popart::cpu
