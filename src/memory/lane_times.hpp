// The times at which sections of a schedule and their lanes run (schedule/lanes.hpp). Times in two lanes of one section
// are not ordered.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

namespace popart::memory {

class LaneTimes {
 public:
  // Starts a section at time `first`, after all others; its lanes then end one after the other; the first starts there.
  void beginSection(int first) { sections_.push_back({first, {}}); }
  void endLane(int last) { sections_.back().ends.push_back(last); }

  struct Where {
    int section = -1, lane = -1;  // -1: in no section
    bool operator==(const Where &) const = default;
  };
  Where at(int time) const {
    const auto behind =
        std::upper_bound(sections_.begin(), sections_.end(), time, [](int t, const Section &s) { return t < s.first; });
    if (behind == sections_.begin() || time > std::prev(behind)->ends.back()) return {};
    const std::vector<int> &ends = std::prev(behind)->ends;
    return {static_cast<int>(behind - sections_.begin()) - 1,
            static_cast<int>(std::lower_bound(ends.begin(), ends.end(), time) - ends.begin())};
  }
  // Whether the two times are not ordered.
  bool areConcurrent(int a, int b) const {
    const Where x = at(a), y = at(b);
    return x.section >= 0 && x.section == y.section && x.lane != y.lane;
  }
  // Whether a section starts between the two times.
  bool hasSectionBetween(int before, int behind) const {
    const auto next = std::upper_bound(sections_.begin(), sections_.end(), before,
                                       [](int t, const Section &s) { return t < s.first; });
    return next != sections_.end() && next->first < behind;
  }
  // First and last time of the section.
  std::pair<int, int> range(int section) const {
    const Section &s = sections_[static_cast<size_t>(section)];
    return {s.first, s.ends.back()};
  }

 private:
  struct Section {
    int first;
    std::vector<int> ends;  // the last time of each lane
  };
  std::vector<Section> sections_;
};

}  // namespace popart::memory
