// When the backward pass reaches a segment, memory contains the values that cross the cuts before it, the values kept
// from it, and those recomputed for later ops. The last segment is different: the backward pass starts with it.
//
//        segment 0   |   segment 1   |   segment 2
//   ops  a  b  c  d  |  e  f  g  h   |  i  j  k  l      after l: values of 2, values that cross the cuts
//                    d               h                  then: e f g h again, values of 1 and of the first cut
//
// Segments have equal shares of the bytes that are recomputed. Each cut may move by half a share to the position that
// the fewest bytes cross.
#include "transforms/checkpoints.hpp"

#include <algorithm>

namespace popart::transforms {
namespace {

class Cutter {
 public:
  Cutter(int count, const std::vector<ForwardValue> &values, LastSegment last)
      : values_(values),
        last_(last),
        crossing_(static_cast<size_t>(count) + 1),
        readBytes_(static_cast<size_t>(count)) {
    for (const ForwardValue &v : values) {
      if (v.isKept) continue;
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

  // The values that these cuts keep, and the peak of memory in the backward pass.
  std::pair<Checkpoints, int64_t> keepFor(std::vector<int> cuts) const {
    auto segmentOf = [&](int position) {
      return static_cast<size_t>(std::lower_bound(cuts.begin(), cuts.end(), position) - cuts.begin());
    };
    std::vector<char> isKept(values_.size());
    std::vector<int> needed(values_.size());             // position of the op at which the backward pass needs it first
    std::vector<int64_t> change(readBytes_.size() + 2);  // of the bytes in memory, by position
    for (size_t i = values_.size(); i-- > 0;) {
      const ForwardValue &v = values_[i];
      const size_t segment = segmentOf(v.made);
      const int own = v.readBackward ? v.lastRead : -1;
      needed[i] = own;
      for (const int m : v.makes)
        if (const auto made = static_cast<size_t>(m); !isKept[made]) needed[i] = std::max(needed[i], needed[made]);
      isKept[i] = v.isKept || segmentOf(v.lastRead) != segment;
      if (segment == cuts.size() && v.readBackward) isKept[i] |= last_ == LastSegment::Kept || needed[i] > own;
      if (!isKept[i] && !v.readBackward) continue;
      change[static_cast<size_t>(v.made)] += v.bytes;
      if (!isKept[i]) change[static_cast<size_t>(needed[i]) + 1] -= v.bytes;
    }
    int64_t bytes = 0, peak = 0;
    for (const int64_t more : change) peak = std::max(peak, bytes += more);
    return {{std::move(cuts), std::move(isKept)}, peak};
  }

 private:
  const std::vector<ForwardValue> &values_;
  const LastSegment last_;
  std::vector<int64_t> crossing_;   // bytes that cross a cut after each position
  std::vector<int64_t> readBytes_;  // made up to each position, read backwards and not always kept
};

}  // namespace

Checkpoints chooseCheckpoints(int count, const std::vector<ForwardValue> &values, LastSegment last) {
  const Cutter cutter(count, values, last);
  auto [best, least] = cutter.keepFor({});
  for (int segments = 2; segments <= count; segments += std::max(1, segments / 4))
    if (auto [found, peak] = cutter.keepFor(cutter.cutsFor(segments)); peak < least) {
      least = peak;
      best = std::move(found);
    }
  return best;
}

}  // namespace popart::transforms
