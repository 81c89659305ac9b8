// Shared by normalisations of plain memory (N, C, spatial…): sets of rows, where a row is the pixels of one channel of
// one image, and the moments of a set, computed from those of its parts.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernels/rows.hpp"
#include "backends/cpu/spatial.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/reduce_ops.hpp"

namespace popart::cpu {

// Values that are summed in float before the sum continues in double: they stay in the first level cache for a second
// pass.
constexpr int64_t kMomentChunk = 4096;

// Of some values: their number, their mean, and the sum of the squared distances from the mean.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  // Adds the values of `other` (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample
  // variances).
  void merge(const Moments &other) {
    if (other.count == 0) return;
    const double all = count + other.count, distance = other.mean - mean;
    squares += other.squares + distance * distance * (count * other.count / all);
    mean += distance * (other.count / all);
    count = all;
  }
};

inline Moments momentsOf(const float *x, int64_t count) {
  Moments all;
  for (int64_t at = 0; at < count; at += kMomentChunk) {
    const int64_t n = std::min(kMomentChunk, count - at);
    const float mean = reduceRow(ReduceOp::kSum, x + at, n) / static_cast<float>(n);
    all.merge({static_cast<double>(n), mean, reduceRow(ReduceOp::kSumDistance, x + at, n, mean)});
  }
  return all;
}

// Sets of rows that are normalised together. Rows are split into parts, which are numbered set by set, row by row.
class RowSets {
 public:
  struct Part {
    int64_t set, channel, begin, count;  // begin, count: elements of the tensor
    bool isFirst;                        // of its set
  };
  // A set is one channel of all images.
  static RowSets ofChannels(const ChannelRows &x) { return {x, x.channels, x.n, Of::kChannels}; }
  // A set is `groupChannels` neighbouring channels of one image.
  static RowSets ofGroups(const ChannelRows &x, int64_t groupChannels) {
    return {x, x.n * (x.channels / groupChannels), groupChannels, Of::kGroups};
  }

  int64_t sets() const { return sets_; }
  double setSize() const { return static_cast<double>(rows_ * x_.places); }
  int64_t partsOfSet() const { return rows_ * leaves_; }
  int64_t parts() const { return sets_ * partsOfSet(); }
  // Number of tasks for a pass over all elements; each has neighbouring parts.
  int64_t tasks() const { return taskCount(x_.n * x_.channels * x_.places, int64_t{1} << 14, parts()); }
  int64_t images() const { return x_.n; }
  int64_t channels() const { return x_.channels; }
  int64_t elements() const { return x_.n * x_.channels * x_.places; }

  Part part(int64_t number) const {
    const int64_t leaf = number % leaves_, row = number / leaves_ % rows_, set = number / leaves_ / rows_;
    const int64_t rowInMemory = of_ == Of::kChannels ? row * x_.channels + set : set * rows_ + row;
    const int64_t begin = x_.places * leaf / leaves_, end = x_.places * (leaf + 1) / leaves_;
    return {set, rowInMemory % x_.channels, rowInMemory * x_.places + begin, end - begin, row == 0 && leaf == 0};
  }
  // The set of a channel of an image, and the parts of that row.
  int64_t setOf(int64_t image, int64_t channel) const {
    return of_ == Of::kChannels ? channel : (image * x_.channels + channel) / rows_;
  }
  int64_t firstPart(int64_t image, int64_t channel) const {
    const int64_t row = of_ == Of::kChannels ? channel * rows_ + image : image * x_.channels + channel;
    return row * leaves_;
  }
  int64_t leaves() const { return leaves_; }

 private:
  enum class Of : uint8_t { kChannels, kGroups };
  RowSets(const ChannelRows &x, int64_t sets, int64_t rows, Of of) : x_(x), sets_(sets), rows_(rows), of_(of) {
    // Only few long rows are split; the shape alone determines the split.
    constexpr int64_t kLeaf = int64_t{1} << 14, kEnoughRows = 64;
    leaves_ = leafCount(x.places, kLeaf, kEnoughRows / std::max<int64_t>(1, sets * rows));
  }

  ChannelRows x_;
  int64_t sets_, rows_, leaves_ = 1;
  Of of_;
};

}  // namespace popart::cpu
