// Chooses which results of a forward pass to keep if the others are recomputed: a pure function on intervals, without
// ops.
#pragma once
#include <cstdint>
#include <vector>

namespace popart::transforms {

// Memory that an op of the forward pass fills. Positions number the ops of the forward pass in the order in which they
// run.
struct ForwardValue {
  int made = 0;                 // position of the op that fills it
  int lastRead = 0;             // position of its last reader in the forward pass; `made` if there is none
  int64_t bytes = 0;            // its size
  bool readBackward = false;    // an op of the backward pass reads it
  std::vector<int> makes = {};  // indices of the values that are computed from it
  bool isKept = false;          // it is kept in any case
};

// What to do with the last segment, with which the backward pass starts.
enum class LastSegment : uint8_t {
  Kept,       // all of it is kept
  WherePays,  // values are kept that would be recomputed right at the start, because others need them there
};

// The division of a forward pass into segments, and the values that are kept.
struct Checkpoints {
  std::vector<int> cuts;     // positions after which to cut, ascending
  std::vector<char> isKept;  // by value
};

// Divides `count` ops into segments; `values` are in the order in which they are made. Values that cross a cut are
// kept, and those of the last segment that `last` names; the others are recomputed when the backward pass reaches a
// reader of them or of values computed from them. Cuts are where the fewest bytes cross. Their number is that of the
// least predicted peak, about the square root of the number of layers for a network of equal layers. No cuts if they
// save nothing.
// O(n log n).
Checkpoints chooseCheckpoints(int count, const std::vector<ForwardValue> &values, LastSegment last);

}  // namespace popart::transforms
