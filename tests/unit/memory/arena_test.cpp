// The arena plan: buffers alive at the same time never overlap, the result is near the largest live set, and
// deterministic.
#include "memory/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace popart::memory {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Sum of aligned buffers at the worst time, counted time by time.
int64_t countedPeak(const std::vector<Interval> &intervals) {
  int64_t peak = 0;
  int horizon = 0;
  for (const Interval &i : intervals) horizon = std::max(horizon, i.last);
  for (int t = 0; t <= horizon; ++t) {
    int64_t live = 0;
    for (const Interval &i : intervals)
      if (i.first <= t && t <= i.last) live += aligned(i.bytes);
    peak = std::max(peak, live);
  }
  return peak;
}

void expectLegal(const std::vector<Interval> &intervals, const ArenaPlan &plan) {
  ASSERT_EQ(plan.offsets.size(), intervals.size());
  int64_t end = 0;
  for (size_t a = 0; a < intervals.size(); ++a) {
    EXPECT_GE(plan.offsets[a], 0);
    EXPECT_EQ(plan.offsets[a] % kAlignment, 0);
    end = std::max(end, plan.offsets[a] + aligned(intervals[a].bytes));
    for (size_t b = 0; b < a; ++b) {
      const bool together = intervals[a].first <= intervals[b].last && intervals[b].first <= intervals[a].last;
      const bool overlap = plan.offsets[a] < plan.offsets[b] + intervals[b].bytes &&
                           plan.offsets[b] < plan.offsets[a] + intervals[a].bytes;
      if (together && overlap) ADD_FAILURE() << a << " and " << b;
    }
  }
  EXPECT_EQ(plan.bytes, end);
  EXPECT_EQ(plan.largestLiveSet, countedPeak(intervals));
  EXPECT_GE(plan.bytes, plan.largestLiveSet);
}

TEST(Arena, nothing_takes_no_memory) {
  const ArenaPlan plan = planArena({});
  EXPECT_EQ(plan.bytes, 0);
  EXPECT_EQ(plan.largestLiveSet, 0);
}

TEST(Arena, buffers_of_different_times_share_memory) {
  const std::vector<Interval> intervals = {{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}};
  const ArenaPlan plan = planArena(intervals);
  expectLegal(intervals, plan);
  EXPECT_EQ(plan.bytes, aligned(1000));
}

TEST(Arena, lifetimes_that_touch_do_not_share_memory) {
  const std::vector<Interval> intervals = {{64, 0, 1}, {64, 1, 2}};
  const ArenaPlan plan = planArena(intervals);
  expectLegal(intervals, plan);
  EXPECT_EQ(plan.bytes, 128);
}

TEST(Arena, empty_buffers_are_placed_too) {
  const std::vector<Interval> intervals = {{0, 0, 3}, {64, 1, 2}, {0, 2, 2}};
  expectLegal(intervals, planArena(intervals));
}

TEST(Arena, a_chain_with_one_long_buffer_reaches_the_live_set) {
  std::vector<Interval> intervals = {{4096, 0, 100}};
  for (int t = 0; t < 100; ++t) intervals.push_back({1024, t, t + 1});
  const ArenaPlan plan = planArena(intervals);
  expectLegal(intervals, plan);
  EXPECT_EQ(plan.bytes, plan.largestLiveSet);
}

TEST(Arena, random_plans_are_legal_small_and_repeatable) {
  std::mt19937 generator(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Interval> intervals;
    const int count = 1 + static_cast<int>(generator() % 80);
    for (int i = 0; i < count; ++i) {
      const int first = static_cast<int>(generator() % 60);
      intervals.push_back(
          {static_cast<int64_t>(generator() % 5000), first, first + static_cast<int>(generator() % 20)});
    }
    const ArenaPlan plan = planArena(intervals);
    expectLegal(intervals, plan);
    EXPECT_LE(static_cast<double>(plan.bytes), 1.3 * static_cast<double>(plan.largestLiveSet));
    EXPECT_EQ(planArena(intervals).offsets, plan.offsets);
  }
}

// A training step of many layers: what the forward pass keeps lives until its backward op.
std::vector<Interval> trainingStep(int layers, std::mt19937 &generator) {
  std::vector<Interval> intervals;
  for (int layer = 0; layer < layers; ++layer) {
    const int backward = 2 * layers - layer;
    const auto bytes = static_cast<int64_t>(64 + generator() % 100000);
    intervals.push_back({bytes, layer, backward});
    intervals.push_back({bytes / 2, backward, backward + 1 + static_cast<int>(generator() % 3)});
  }
  return intervals;
}

TEST(Arena, time_does_not_grow_with_the_pairs_that_live_together) {
  std::mt19937 generator(5);
  const std::vector<Interval> intervals = trainingStep(100000, generator);
  const auto start = std::chrono::steady_clock::now();
  const ArenaPlan plan = planArena(intervals);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LE(static_cast<double>(plan.bytes), 1.05 * static_cast<double>(plan.largestLiveSet));
  EXPECT_LT(seconds.count(), 20) << "5 billion pairs, looked at one by one, take minutes";
}

TEST(Arena, many_pairs_are_placed_in_two_layers) {
  std::mt19937 generator(7);
  std::vector<Interval> intervals;
  for (int i = 0; i < 4000; ++i) {
    const int first = static_cast<int>(generator() % 4000);
    const int64_t size = int64_t{64} << generator() % 14;
    intervals.push_back({size, first, first + static_cast<int>(generator() % 2000)});
  }
  const ArenaPlan plan = planArena(intervals);
  expectLegal(intervals, plan);
  EXPECT_LE(static_cast<double>(plan.bytes), 1.1 * static_cast<double>(plan.largestLiveSet));
  EXPECT_EQ(planArena(intervals).offsets, plan.offsets);
}

}  // namespace
}  // namespace popart::memory
