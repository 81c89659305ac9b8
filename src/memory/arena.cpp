// Offset assignment for intervals. Buffers are placed one after another; each goes into the smallest gap left by the
// already placed buffers that are alive at the same time:
//
//   offset ▲   ┌─────┐           A and C never live together, so C takes A's place
//          │   │  B  ├───┐
//          │ ┌─┴─┬───┴─┐ │
//          │ │ A │  C  │ │
//          └─┴───┴─────┴─┴──▶ time
//
// The order matters, so several are tried, the best one is mended step by step, and the best result is kept. Neighbours
// in time come from an interval index, which keeps the work near n·(overlaps) rather than n².
#include "memory/arena.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace popart::memory {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t liveSetPeak(const std::vector<Interval> &intervals) {
  std::vector<std::pair<int, int64_t>> events;  // at a time: additions before removals of the previous time
  for (const auto &i : intervals) {
    events.emplace_back(2 * i.first, aligned(i.bytes));
    events.emplace_back(2 * i.last + 1, -aligned(i.bytes));
  }
  std::sort(events.begin(), events.end(),
            [](auto &a, auto &b) { return a.first != b.first ? a.first < b.first : a.second < b.second; });
  int64_t live = 0, peak = 0;
  for (auto &[time, bytes] : events) peak = std::max(peak, live += bytes);
  return peak;
}

struct Placement {
  explicit Placement(const std::vector<Interval> &i) : intervals(i) {
    int horizon = 0;
    for (const auto &x : intervals) horizon = std::max(horizon, x.last);
    buckets.resize(static_cast<size_t>(horizon / kBucket) + 1);
  }

  // Smallest gap among placed buffers that overlap in time.
  int64_t place(int n) {
    const Interval &x = intervals[n];
    const int64_t bytes = aligned(x.bytes);
    std::vector<std::pair<int64_t, int64_t>> taken;  // [begin, end)
    for (int b = x.first / kBucket; b <= x.last / kBucket; ++b)
      for (int other : buckets[b]) {
        const Interval &y = intervals[other];
        if (std::max(y.first, x.first) / kBucket != b) continue;  // seen once: in the bucket where the overlap starts
        if (y.first <= x.last && x.first <= y.last)
          taken.emplace_back(offsets[other], offsets[other] + aligned(y.bytes));
      }
    std::sort(taken.begin(), taken.end());
    int64_t best = -1, bestGap = 0, end = 0;
    for (auto &[begin, stop] : taken) {
      const int64_t gap = begin - end;
      if (gap >= bytes && (best < 0 || gap < bestGap)) best = end, bestGap = gap;
      end = std::max(end, stop);
    }
    if (best < 0) best = end;
    for (int b = x.first / kBucket; b <= x.last / kBucket; ++b) buckets[b].push_back(n);
    return best;
  }

  static constexpr int kBucket = 16;
  const std::vector<Interval> &intervals;
  std::vector<std::vector<int>> buckets;
  std::vector<int64_t> offsets = std::vector<int64_t>(intervals.size(), 0);
};

ArenaPlan planInOrder(const std::vector<Interval> &intervals, const std::vector<int> &order) {
  Placement placement(intervals);
  ArenaPlan plan;
  for (int n : order) {
    placement.offsets[n] = placement.place(n);
    plan.bytes = std::max(plan.bytes, placement.offsets[n] + aligned(intervals[n].bytes));
  }
  plan.offsets = std::move(placement.offsets);
  return plan;
}

// The buffers that end where the arena ends are placed first in the next attempt; the best attempt is kept. The number
// of attempts falls with the number of buffers, so that the time stays near that of one order.
void promoteHighest(const std::vector<Interval> &intervals, std::vector<int> order, int64_t peak, ArenaPlan &best) {
  constexpr size_t kPlacements = 100000;
  const size_t attempts = std::clamp<size_t>(kPlacements / std::max<size_t>(1, order.size()), 2, 64);
  ArenaPlan plan = best;
  for (size_t a = 0; a < attempts && best.bytes > peak; ++a) {
    std::stable_partition(order.begin(), order.end(),
                          [&](int n) { return plan.offsets[n] + aligned(intervals[n].bytes) == plan.bytes; });
    plan = planInOrder(intervals, order);
    if (plan.bytes < best.bytes) best = plan;
  }
}

}  // namespace

ArenaPlan planArena(const std::vector<Interval> &intervals) {
  const int64_t peak = liveSetPeak(intervals);
  auto length = [&](int n) { return intervals[n].last - intervals[n].first; };
  const std::function<bool(int, int)> orders[] = {
      [&](int a, int b) {
        return intervals[a].bytes != intervals[b].bytes ? intervals[a].bytes > intervals[b].bytes : a < b;
      },
      [&](int a, int b) { return length(a) != length(b) ? length(a) > length(b) : a < b; },
      [&](int a, int b) {
        return intervals[a].first != intervals[b].first ? intervals[a].first < intervals[b].first : a < b;
      },
      [&](int a, int b) {
        const double x = double(intervals[a].bytes) * (length(a) + 1), y = double(intervals[b].bytes) * (length(b) + 1);
        return x != y ? x > y : a < b;
      }};
  ArenaPlan best;
  std::vector<int> bestOrder;
  for (const auto &less : orders) {
    std::vector<int> order(intervals.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), less);
    ArenaPlan plan = planInOrder(intervals, order);
    if (best.offsets.empty() || plan.bytes < best.bytes) best = std::move(plan), bestOrder = std::move(order);
    if (best.bytes <= peak) break;
  }
  promoteHighest(intervals, std::move(bestOrder), peak, best);
  best.largestLiveSet = peak;
  return best;
}

}  // namespace popart::memory
