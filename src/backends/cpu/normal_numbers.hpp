// Normal numbers from the words of NumPy's generator, for initial values of weights. The words are drawn first and the
// numbers computed later.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/vector/twister.hpp"

namespace popart::cpu {

// Numbers of deviation 1, truncated at two deviations on both sides. Drawing them advances the generator, which is much
// cheaper than computing them. Threads then compute shares of the numbers in parallel; each share keeps its state of
// the generator.
class NormalNumbers {
 public:
  // Draws the next `count` numbers after `skipped` ones, and advances the generator past them. Throws popart::error for
  // negative counts, an invalid position of the generator, and a processor for which the library was not compiled.
  NormalNumbers(Twister &generator, int64_t skipped, int64_t count);

  int64_t count() const { return count_; }
  // Whether threads can share the computation.
  bool hasShares() const { return shares_.size() > 1; }
  // numbers[i] = `deviation` times number i, for all of them. T: float or double.
  template <class T>
  void make(double deviation, T *numbers, int threads) const;

 private:
  int64_t count_;
  std::vector<Twister> shares_;  // state of the generator at the start of each share
};

}  // namespace popart::cpu
