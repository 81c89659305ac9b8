// Normal numbers from the words of NumPy's generator, drawn now and made later: first values of weights.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/vector/twister.hpp"

namespace popart::cpu {

// Numbers of deviation 1 that are cut at two deviations on both sides. To draw them moves the generator on, which is
// much less work than to make them; from what is kept for each share of them, threads make them at the same time.
class NormalNumbers {
 public:
  // Draws the next `count` numbers after `skipped` ones and moves the generator on behind them. Throws popart::error
  // for negative counts, a position that is none, and a processor that the library was not compiled for.
  NormalNumbers(Twister &generator, int64_t skipped, int64_t count);

  int64_t count() const { return count_; }
  // Whether threads can share the work of making them.
  bool hasShares() const { return shares_.size() > 1; }
  // numbers[i] = `deviation` times number i, for all of them. T: float or double.
  template <class T>
  void make(double deviation, T *numbers, int threads) const;

 private:
  int64_t count_;
  std::vector<Twister> shares_;  // the generator in front of each
};

}  // namespace popart::cpu
