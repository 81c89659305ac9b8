// When the backward pass comes to a segment, memory holds what crosses the cuts in front of it and all values of the
// segment that are read backwards. The last segment is never computed again: the backward pass begins with it.
//
//        segment 0   |   segment 1   |   segment 2
//   ops  a  b  c  d  |  e  f  g  h   |  i  j  k  l      behind l: values of 2, what crosses both cuts
//                    d               h                  then: e f g h again, values of 1, what crosses the first
//
// Segments have equal shares of the bytes that are read backwards; each cut may move by half a share to where the least
// bytes cross it.
#include "transforms/checkpoints.hpp"

#include <algorithm>

namespace popart::transforms {
namespace {

class Cutter {
 public:
  Cutter(int count, const std::vector<ForwardValue> &values)
      : values_(values), crossing_(static_cast<size_t>(count) + 1), readBytes_(static_cast<size_t>(count)) {
    for (const ForwardValue &v : values) {
      crossing_[static_cast<size_t>(v.made)] += v.bytes;
      crossing_[static_cast<size_t>(v.lastRead)] -= v.bytes;
      if (v.readBackward) readBytes_[static_cast<size_t>(v.made)] += v.bytes;
    }
    for (size_t i = 1; i < crossing_.size(); ++i) crossing_[i] += crossing_[i - 1];
    for (size_t i = 1; i < readBytes_.size(); ++i) readBytes_[i] += readBytes_[i - 1];
  }

  std::vector<int> cutsFor(int segments) const {
    std::vector<int> cuts;
    if (readBytes_.empty()) return cuts;
    const double share = static_cast<double>(readBytes_.back()) / segments;
    auto positionOf = [&](double bytes) {
      return std::lower_bound(readBytes_.begin(), readBytes_.end(), static_cast<int64_t>(bytes)) - readBytes_.begin();
    };
    for (int i = 1; i < segments; ++i) {
      const auto first = crossing_.begin() + positionOf((i - 0.5) * share);
      const auto last = crossing_.begin() + positionOf((i + 0.5) * share);
      if (first < last) cuts.push_back(static_cast<int>(std::min_element(first, last) - crossing_.begin()));
    }
    return cuts;
  }

  int64_t peakOf(const std::vector<int> &cuts) const {
    std::vector<int64_t> keeps(cuts.size() + 1), holds(cuts.size() + 1);  // by segment
    auto segmentOf = [&](int position) {
      return static_cast<size_t>(std::lower_bound(cuts.begin(), cuts.end(), position) - cuts.begin());
    };
    for (const ForwardValue &v : values_) {
      const size_t segment = segmentOf(v.made);
      if (segmentOf(v.lastRead) != segment) keeps[segment] += v.bytes;
      if (v.readBackward) holds[segment] += v.bytes;
    }
    int64_t peak = 0, before = 0;
    for (size_t s = 0; s < keeps.size(); ++s) {
      peak = std::max(peak, before + holds[s]);
      before += keeps[s];
    }
    return peak;
  }

 private:
  const std::vector<ForwardValue> &values_;
  std::vector<int64_t> crossing_;   // bytes that cross a cut behind each position
  std::vector<int64_t> readBytes_;  // made up to each position and read backwards
};

}  // namespace

std::vector<int> chooseCuts(int count, const std::vector<ForwardValue> &values) {
  const Cutter cutter(count, values);
  std::vector<int> best;
  int64_t least = cutter.peakOf(best);
  for (int segments = 2; segments <= count; segments += std::max(1, segments / 4)) {
    std::vector<int> cuts = cutter.cutsFor(segments);
    if (const int64_t peak = cutter.peakOf(cuts); peak < least) {
      least = peak;
      best = std::move(cuts);
    }
  }
  return best;
}

}  // namespace popart::transforms
