// Offset assignment for intervals. Buffers are placed one after another; each goes into the smallest gap left by the
// already placed buffers that are alive at the same time:
//
//   offset ▲   ┌─────┐           A and C are never live together, so C reuses A's memory
//          │   │  B  ├───┐
//          │ ┌─┴─┬───┴─┐ │
//          │ │ A │  C  │ │
//          └─┴───┴─────┴─┴──▶ time
//
// In the order of their starts this is a best-fit allocator, n·log(n) for n buffers. If it leaves holes, other orders
// are tried, the best one is improved step by step, and the best result is kept. The other orders look at every pair of
// buffers with overlapping live ranges. If there are too many pairs, only the largest buffers are placed this way, and
// the others above them.
#include "memory/arena.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>

namespace popart::memory {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Placement {
  explicit Placement(const std::vector<Interval> &i) : intervals(i) {
    int horizon = 0;
    for (const auto &x : intervals) horizon = std::max(horizon, x.last);
    buckets.resize(static_cast<size_t>(horizon / kBucket) + 1);
  }

  // Best fit: the smallest gap among placed buffers with overlapping live ranges.
  int64_t place(int n) {
    const Interval &x = intervals[n];
    const int64_t bytes = aligned(x.bytes);
    std::vector<std::pair<int64_t, int64_t>> taken;  // [begin, end)
    for (int b = x.first / kBucket; b <= x.last / kBucket; ++b)
      for (int other : buckets[b]) {
        const Interval &y = intervals[other];
        if (std::max(y.first, x.first) / kBucket != b) continue;  // count a pair once: where the overlap starts
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

  static constexpr int kBucket = 16;  // times per bucket; most live ranges span few ops
  const std::vector<Interval> &intervals;
  std::vector<std::vector<int>> buckets;
  std::vector<int64_t> offsets = std::vector<int64_t>(intervals.size(), 0);
};

// Free list of an arena without an upper bound.
class FreeRanges {
 public:
  FreeRanges() { add(0, kEndless); }

  // Best fit; of equally large ranges the lowest.
  int64_t take(int64_t bytes) {
    const auto [size, begin] = *bySize_.lower_bound({bytes, 0});
    remove(begin, size);
    if (size > bytes) add(begin + bytes, size - bytes);
    return begin;
  }
  void give(int64_t begin, int64_t bytes) {
    auto next = byBegin_.lower_bound(begin);
    if (next != byBegin_.end() && next->first == begin + bytes) {
      const int64_t size = next->second;
      remove(begin + bytes, size);
      bytes += size;
    }
    next = byBegin_.lower_bound(begin);
    if (next != byBegin_.begin() && std::prev(next)->first + std::prev(next)->second == begin) {
      const auto [before, size] = *std::prev(next);
      remove(before, size);
      begin = before, bytes += size;
    }
    add(begin, bytes);
  }

 private:
  static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max() / 2;
  void add(int64_t begin, int64_t size) { byBegin_[begin] = size, bySize_.insert({size, begin}); }
  void remove(int64_t begin, int64_t size) { byBegin_.erase(begin), bySize_.erase({size, begin}); }

  std::map<int64_t, int64_t> byBegin_;            // begin -> size
  std::set<std::pair<int64_t, int64_t>> bySize_;  // (size, begin)
};

template <class Less>
std::vector<int> sorted(const std::vector<Interval> &intervals, const Less &less) {
  std::vector<int> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  return order;
}

std::vector<int> orderOfStarts(const std::vector<Interval> &intervals) {
  return sorted(intervals, [&](int a, int b) { return intervals[a].first < intervals[b].first; });
}

// As planInOrder, for buffers in the order of their starts. Sets `pairs` to the number of pairs that are live
// together.
ArenaPlan planByStart(const std::vector<Interval> &intervals, const std::vector<int> &order, int64_t &pairs) {
  ArenaPlan plan;
  plan.offsets.resize(intervals.size());
  FreeRanges free;
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> live;  // (last, buffer)
  pairs = 0;
  for (int n : order) {
    const int64_t bytes = aligned(intervals[n].bytes);
    for (; !live.empty() && live.top().first < intervals[n].first; live.pop())
      free.give(plan.offsets[live.top().second], aligned(intervals[live.top().second].bytes));
    if (bytes == 0) continue;
    plan.offsets[n] = free.take(bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[n] + bytes);
    pairs += static_cast<int64_t>(live.size());
    live.push({intervals[n].last, n});
  }
  return plan;
}

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

constexpr int64_t kMostPairs = 2'000'000;       // visited by one placement order; bounds compile time
constexpr int64_t kMostPairsInAll = 4'000'000;  // visited by all attempts to improve one
constexpr size_t kLargestBuffers = 2000;        // n (n - 1) / 2 pairs: fewer than kMostPairs

// The buffers that end where the arena ends are placed first in the next attempt; the best attempt is kept.
void promoteHighest(const std::vector<Interval> &intervals, std::vector<int> order, int64_t attempts, int64_t peak,
                    ArenaPlan &best) {
  ArenaPlan plan = best;
  for (int64_t a = 0; a < attempts && best.bytes > peak; ++a) {
    std::stable_partition(order.begin(), order.end(),
                          [&](int n) { return plan.offsets[n] + aligned(intervals[n].bytes) == plan.bytes; });
    plan = planInOrder(intervals, order);
    if (plan.bytes < best.bytes) best = plan;
  }
}

// Tries the orders that look at pairs, and replaces `best`, the plan for `bestOrder`, by better plans.
void improve(const std::vector<Interval> &intervals, int64_t pairs, int64_t peak, std::vector<int> bestOrder,
             ArenaPlan &best) {
  auto length = [&](int n) { return intervals[n].last - intervals[n].first; };
  auto area = [&](int n) { return static_cast<double>(intervals[n].bytes) * (length(n) + 1); };
  const std::function<bool(int, int)> orders[] = {[&](int a, int b) { return intervals[a].bytes > intervals[b].bytes; },
                                                  [&](int a, int b) { return length(a) > length(b); },
                                                  [&](int a, int b) { return area(a) > area(b); }};
  for (const auto &less : orders) {
    std::vector<int> order = sorted(intervals, less);
    ArenaPlan plan = planInOrder(intervals, order);
    if (plan.bytes < best.bytes) best = std::move(plan), bestOrder = std::move(order);
    if (best.bytes <= peak) return;
  }
  const int64_t attempts = std::clamp<int64_t>(kMostPairsInAll / std::max<int64_t>(1, pairs), 2, 64);
  promoteHighest(intervals, std::move(bestOrder), attempts, peak, best);
}

// Places the largest buffers by searching orders, the others above them in the order of their starts.
ArenaPlan planInTwoLayers(const std::vector<Interval> &intervals) {
  const std::vector<int> order =
      sorted(intervals, [&](int a, int b) { return intervals[a].bytes > intervals[b].bytes; });
  ArenaPlan plan;
  plan.offsets.resize(intervals.size());
  const size_t split = std::min(kLargestBuffers, order.size());
  for (const auto &[begin, end] : {std::pair{size_t{0}, split}, {split, order.size()}}) {
    std::vector<Interval> layer;
    for (size_t i = begin; i < end; ++i) layer.push_back(intervals[order[i]]);
    int64_t pairs = 0;
    const ArenaPlan planned = begin == 0 ? planArena(layer) : planByStart(layer, orderOfStarts(layer), pairs);
    for (size_t i = begin; i < end; ++i) plan.offsets[order[i]] = plan.bytes + planned.offsets[i - begin];
    plan.bytes += planned.bytes;
  }
  return plan;
}

}  // namespace

int64_t largestLiveSet(const std::vector<Interval> &intervals) {
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

ArenaPlan planArena(const std::vector<Interval> &intervals) {
  const int64_t peak = largestLiveSet(intervals);
  int64_t pairs = 0;
  std::vector<int> order = orderOfStarts(intervals);
  ArenaPlan best = planByStart(intervals, order, pairs);
  if (best.bytes > peak && pairs <= kMostPairs) {
    improve(intervals, pairs, peak, std::move(order), best);
  } else if (best.bytes > peak) {
    ArenaPlan layered = planInTwoLayers(intervals);
    if (layered.bytes < best.bytes) best = std::move(layered);
  }
  best.largestLiveSet = peak;
  return best;
}

}  // namespace popart::memory
