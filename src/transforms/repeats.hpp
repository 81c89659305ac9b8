// Repeated stretches of a sequence of numbers, found with a suffix array.
#pragma once
#include <vector>

namespace popart::transforms {

// A stretch of `length` numbers that begins at several positions, which may overlap. No longer stretch has the same
// positions.
struct Repeat {
  int length = 0;
  int first = 0, last = 0;  // of Repeats::suffixes: the positions, both ends included
};

struct Repeats {
  std::vector<int> suffixes;  // positions in the order of what begins there
  std::vector<Repeat> found;  // fewer than the sequence has numbers
};

// n log² n steps and n of memory for n numbers, whatever they are.
Repeats findRepeats(const std::vector<int> &sequence);

}  // namespace popart::transforms
