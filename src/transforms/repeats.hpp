// Repeated ranges of a sequence of numbers, found with a suffix array.
#pragma once
#include <vector>

namespace popart::transforms {

// A range of `length` numbers that occurs at several positions, which may overlap. No longer range has the same
// positions.
struct Repeat {
  int length = 0;
  int first = 0, last = 0;  // range of Repeats::suffixes with the positions, both ends included
};

struct Repeats {
  std::vector<int> suffixes;  // positions, sorted by the sequence that starts there
  std::vector<Repeat> found;  // fewer than there are numbers
};

// Takes n log² n steps and n of memory for any n numbers.
Repeats findRepeats(const std::vector<int> &sequence);

}  // namespace popart::transforms
