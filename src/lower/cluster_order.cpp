// Order maintenance by integer labels with gaps. A move puts clusters at the start of the gap before its target, the
// square root of the gap apart: most of the gap is left for later moves to the same target, and every moved cluster has
// its own gap. When a gap is used up, all labels are assigned again.
#include "lower/cluster_order.hpp"

#include <algorithm>
#include <bit>

namespace popart::lower {
namespace {

constexpr int64_t kGap = int64_t{1} << 40;

}  // namespace

ClusterOrder::ClusterOrder(int count) : labels_(static_cast<size_t>(count)) {
  for (int i = 0; i < count; ++i) byLabel_.emplace_hint(byLabel_.end(), labels_[i] = kGap * (i + 1), i);
}

void ClusterOrder::spread() {
  std::map<int64_t, int> fresh;
  int64_t label = 0;
  for (const auto &[old, cluster] : byLabel_)
    fresh.emplace_hint(fresh.end(), labels_[cluster] = label += kGap, cluster);
  byLabel_ = std::move(fresh);
}

void ClusterOrder::moveBefore(std::vector<int> clusters, int other) {
  if (clusters.empty()) return;
  std::sort(clusters.begin(), clusters.end(), [this](int a, int b) { return isBefore(a, b); });
  for (int cluster : clusters) remove(cluster);
  const auto count = static_cast<int64_t>(clusters.size());
  const auto gap = [&] {
    const auto at = byLabel_.find(labels_[other]);
    return at->first - (at == byLabel_.begin() ? 0 : std::prev(at)->first);
  };
  if (gap() <= count) spread();
  const int64_t free = gap();
  const int64_t step = std::min(free / (count + 1), free >> (std::bit_width(static_cast<uint64_t>(free)) / 2));
  int64_t label = labels_[other] - free;
  for (int cluster : clusters) byLabel_.emplace(labels_[cluster] = label += step, cluster);
}

}  // namespace popart::lower
