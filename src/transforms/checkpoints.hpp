// Which results of a forward pass are kept where others are computed again: a pure function on intervals that knows no
// ops.
#pragma once
#include <cstdint>
#include <vector>

namespace popart::transforms {

// Memory that an op of the forward pass fills. Positions count the ops of the forward pass in the order they run.
struct ForwardValue {
  int made = 0;                 // position of the op that fills it
  int lastRead = 0;             // of the last op of the forward pass that reads it; `made` when none does
  int64_t bytes = 0;            // its size
  bool readBackward = false;    // by an op of the backward pass
  std::vector<int> makes = {};  // the values that are computed from it, by number
  bool isKept = false;          // in any case
};

// What becomes of the last segment, with which the backward pass begins.
enum class LastSegment : uint8_t {
  Kept,       // whole
  WherePays,  // what would be computed again at its very beginning, because others need it there
};

// Where a forward pass is cut into segments, and what is kept then.
struct Checkpoints {
  std::vector<int> cuts;     // positions behind which to cut, ascending
  std::vector<char> isKept;  // by value
};

// Cuts `count` ops; `values` in the order they are made. Values that cross a cut are kept, and of the last segment what
// `last` says; the others are computed again, each when the backward pass comes to a reader of it or of what is
// computed from it. Cuts stand where the least bytes cross them; how many there are is decided by the least predicted
// peak, for a network of equal layers about the square root of their number. None where cutting saves nothing.
// O(n log n).
Checkpoints chooseCheckpoints(int count, const std::vector<ForwardValue> &values, LastSegment last);

}  // namespace popart::transforms
