// Reductions of the pixels of a tensor with channels last to one number for each channel. They are used by the kernels
// of reductions (spatial_moves.cpp) and by depthwise convolutions that compute means of their results (conv.cpp).
// Invariant: the pixels are divided into leaves, equal ranges whose results are combined in order. The number of leaves
// depends only on the shape, so the bits of a result do not depend on the kernel that computes it.
#pragma once
#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/columns.hpp"

namespace popart::cpu {

enum class Reduction : uint8_t { Sum, Mean, Maximum };

// `sets` blocks of `pixels` pixels, each of `channels` numbers of `type`: all pixels of an image, or of all images.
class PixelReduction {
 public:
  PixelReduction(int64_t sets, int64_t pixels, int64_t channels, DataType type, Reduction kind)
      : pixels_(pixels), channels_(channels), type_(type), kind_(kind) {
    constexpr int64_t kLeafElements = int64_t{1} << 14;
    const int64_t wide = std::max<int64_t>(1, sets * (channels / 64));
    leaves_ = leafCount(pixels * channels, kLeafElements, std::min(pixels, ceilDiv(kMostTasks, wide)));
  }
  int64_t leaves() const noexcept { return leaves_; }

  // Writes the sums or maxima of `count` channels from `first` on over a leaf of x: double for sums, float for maxima.
  void sumLeaf(const void *x, int64_t set, int64_t leaf, int64_t first, int64_t count, double *sums) const noexcept {
    std::fill_n(sums, count, 0.0);
    columnSums(leafOf(leaf, count), leafAt(x, set, leaf, first), sums);
  }
  void maximaOfLeaf(const void *x, int64_t set, int64_t leaf, int64_t first, int64_t count,
                    float *maxima) const noexcept {
    columnMaxima(leafOf(leaf, count), leafAt(x, set, leaf, first), maxima);
  }

  // Writes the results of these channels to y (sets, channels). `scratch`: two doubles for each of them.
  void reduce(const void *x, int64_t set, int64_t first, int64_t count, void *y, void *scratch) const noexcept {
    if (kind_ == Reduction::Maximum)
      return writeMaxima({channels_, pixels_, count, type_}, leafAt(x, set, 0, first), set * channels_ + first, y,
                         scratch);
    auto *whole = static_cast<double *>(scratch), *sums = whole + count;
    std::fill_n(whole, count, 0.0);
    for (int64_t leaf = 0; leaf < leaves_; ++leaf) {
      sumLeaf(x, set, leaf, first, count, sums);
      for (int64_t c = 0; c < count; ++c) whole[c] += sums[c];
    }
    for (int64_t c = 0; c < count; ++c) setNumberAt(y, set * channels_ + first + c, type_, finish(whole[c]));
  }

  // The same, where `leafResults` has the results of all leaves, (sets, leaves, channels).
  void combine(const void *leafResults, int64_t set, int64_t first, int64_t count, void *y,
               void *scratch) const noexcept {
    const int64_t at = set * leaves_ * channels_ + first, result = set * channels_ + first;
    if (kind_ == Reduction::Maximum)
      return writeMaxima({channels_, leaves_, count}, static_cast<const float *>(leafResults) + at, result, y, scratch);
    const double *sums = static_cast<const double *>(leafResults) + at;
    for (int64_t c = 0; c < count; ++c) {
      double sum = 0;
      for (int64_t leaf = 0; leaf < leaves_; ++leaf) sum += sums[leaf * channels_ + c];
      setNumberAt(y, result + c, type_, finish(sum));
    }
  }

 private:
  int64_t firstPixel(int64_t leaf) const noexcept { return pixels_ * leaf / leaves_; }
  Columns leafOf(int64_t leaf, int64_t count) const noexcept {
    return {channels_, firstPixel(leaf + 1) - firstPixel(leaf), count, type_};
  }
  const void *leafAt(const void *x, int64_t set, int64_t leaf, int64_t first) const noexcept {
    return elementAt(x, (set * pixels_ + firstPixel(leaf)) * channels_ + first, type_);
  }
  float finish(double sum) const noexcept {
    return static_cast<float>(kind_ == Reduction::Mean ? sum / static_cast<double>(pixels_) : sum);
  }
  void writeMaxima(const Columns &columns, const void *x, int64_t result, void *y, void *scratch) const noexcept {
    float *maxima = placeAt(y, result, type_, static_cast<float *>(scratch));
    columnMaxima(columns, x, maxima);
    keepFloats(maxima, y, result, columns.cols, type_);
  }

  int64_t pixels_, channels_, leaves_ = 1;
  DataType type_;
  Reduction kind_;
};

}  // namespace popart::cpu
