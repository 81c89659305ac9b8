#include "exchange/layout.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include <popart/error.hpp>

namespace popart::exchange {

ReplicaLayout::ReplicaLayout(std::span<const int> counts, std::span<const std::string> hosts) {
  check(!counts.empty() && counts.size() == hosts.size(),
        "replica layout: got counts of {} processes and hosts of {}, expected one of each for at least one process",
        counts.size(), hosts.size());
  int64_t all = 0;
  for (size_t p = 0; p < counts.size(); ++p) {
    check(counts[p] > 0, "replica layout: process {} drives {} replicas, expected at least 1", p, counts[p]);
    all += counts[p];
  }
  check(all <= std::numeric_limits<int>::max(), "replica layout: got {} replicas, expected at most {}", all,
        std::numeric_limits<int>::max());
  replicas_ = static_cast<int>(all);
  each_ = counts[0];
  if (std::ranges::any_of(counts, [&](int count) { return count != each_; })) {
    firsts_.reserve(counts.size() + 1);
    firsts_.push_back(0);
    for (const int count : counts) firsts_.push_back(firsts_.back() + count);
  }
  std::unordered_map<std::string_view, int> numbers;
  hosts_.reserve(hosts.size());
  for (const std::string &name : hosts) {
    const auto [known, isNew] = numbers.try_emplace(name, static_cast<int>(nameEnds_.size()));
    if (isNew) {
      names_ += name;
      nameEnds_.push_back(static_cast<int>(names_.size()));
    }
    hosts_.push_back(known->second);
  }
  names_.shrink_to_fit();
  nameEnds_.shrink_to_fit();
}

int ReplicaLayout::first(int process) const {
  return firsts_.empty() ? process * each_ : firsts_[static_cast<size_t>(process)];
}

int ReplicaLayout::processOf(int replica) const {
  if (firsts_.empty()) return replica / each_;
  return static_cast<int>(std::ranges::upper_bound(firsts_, replica) - firsts_.begin()) - 1;
}

std::string_view ReplicaLayout::hostName(int process) const {
  const auto host = static_cast<size_t>(hostOf(process));
  const auto begin = static_cast<size_t>(host == 0 ? 0 : nameEnds_[host - 1]);
  return std::string_view(names_).substr(begin, static_cast<size_t>(nameEnds_[host]) - begin);
}

int ReplicaLayout::processesOn(int host) const { return static_cast<int>(std::ranges::count(hosts_, host)); }

int ReplicaLayout::numberOnHost(int process) const {
  return static_cast<int>(std::count(hosts_.begin(), hosts_.begin() + process, hostOf(process)));
}

std::string ReplicaLayout::describe(int process) const {
  const int begin = first(process), last = begin + count(process) - 1;
  std::string text = formatText("process {} on host '{}' (", {toText(process), toText(hostName(process))});
  return text + (begin == last ? formatText("replica {})", {toText(begin)})
                               : formatText("replicas {} to {})", {toText(begin), toText(last)}));
}

std::string ReplicaLayout::describe(std::vector<int> processes) const {
  std::ranges::sort(processes);
  processes.erase(std::ranges::unique(processes).begin(), processes.end());
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(processes.size(), kMost); ++i) text += (i ? ", " : "") + describe(processes[i]);
  return processes.size() > kMost ? text + formatText(" and {} more", {toText(processes.size() - kMost)}) : text;
}

int64_t ReplicaLayout::bytes() const {
  const size_t ints = firsts_.capacity() + hosts_.capacity() + nameEnds_.capacity();
  return static_cast<int64_t>(sizeof *this + ints * sizeof(int) + names_.capacity());
}

namespace {

void requireSameReplicas(const ReplicaLayout &layout, const ReplicaGrouping &grouping) {
  check(static_cast<int>(grouping.getNumReplicas()) == layout.replicas(),
        "{}: the job has another number of replicas: got {}", grouping, layout.replicas());
}

}  // namespace

std::vector<MemberRange> membersOf(const ReplicaLayout &layout, const ReplicaGrouping &grouping, int group) {
  requireSameReplicas(layout, grouping);
  const auto size = static_cast<int>(grouping.getGroupSize()), stride = static_cast<int>(grouping.getStride());
  const auto begin = static_cast<int>(grouping.getReplicaAt(static_cast<unsigned>(group)));
  std::vector<MemberRange> ranges;
  for (int member = 0; member < size;) {
    const int process = layout.processOf(begin + member * stride);
    const int last = layout.first(process) + layout.count(process) - 1;
    const int end = std::min(size, (last - begin) / stride + 1);
    ranges.push_back({process, member, end - member});
    member = end;
  }
  return ranges;
}

std::vector<int> groupsOf(const ReplicaLayout &layout, const ReplicaGrouping &grouping, int process) {
  requireSameReplicas(layout, grouping);
  std::vector<int> groups;
  for (int r = layout.first(process); r < layout.first(process + 1); ++r)
    groups.push_back(static_cast<int>(grouping.getGroupAt(static_cast<unsigned>(r))));
  std::ranges::sort(groups);
  groups.erase(std::ranges::unique(groups).begin(), groups.end());
  return groups;
}

}  // namespace popart::exchange
