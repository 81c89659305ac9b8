// Sums over places for weight gradients of convolutions with one channel in a group, channels last: a lane is a
// channel. The sums of neighbouring taps stay in registers, and an input is loaded once for all taps of its row that
// read it. Images are read in place; a place beyond the border is a vector of zeros. Used by GroupedGradient
// (conv_grouped.hpp).
// Invariant: the sum of a tap and channel is one chain of multiply-adds over the places in ascending order, with a
// product for every place, beyond the border too; blocks never change a bit.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv_window.hpp"

namespace popart::cpu {

// Neighbouring taps of the kernel. Their sums are in registers at the same time.
struct DepthwiseTaps {
  int64_t depth, row, column;  // position of the first tap
  int rows, columns;
};

class DepthwiseTapSums {
 public:
  // Windows of one channel; dy has as many channels as x.
  explicit DepthwiseTapSums(const WindowShape &shape);
  // For channels [first, end) and all places of `chunk`, in FLOAT:
  //   sums[panel of the channel, tap, lane] += x[window of the place at tap, channel] * dy[place, channel]
  // x (N, *in, C) and dy (N, *out, C) in whole; `first` begins a panel, whose sums come first. Panels have panelWidth()
  // lanes; those beyond the last channel stay as they are.
  void add(const WindowChunk &chunk, int64_t first, int64_t end, const float *x, const float *dy,
           float *sums) const noexcept;

 private:
  int64_t linesTogether(int64_t channels) const noexcept;

  WindowShape shape_;
  std::vector<DepthwiseTaps> parts_;  // parts of the kernel
};

}  // namespace popart::cpu
