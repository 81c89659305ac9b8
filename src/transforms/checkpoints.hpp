// Where to cut a forward pass into segments for recomputation: a pure function on intervals that knows no ops.
#pragma once
#include <cstdint>
#include <vector>

namespace popart::transforms {

// Memory that an op of the forward pass fills. Positions count the ops of the forward pass in the order they run.
struct ForwardValue {
  int made = 0;               // position of the op that fills it
  int lastRead = 0;           // of the last op of the forward pass that reads it; `made` when none does
  int64_t bytes = 0;          // its size
  bool readBackward = false;  // by an op of the backward pass
};

// Positions behind which to cut `count` ops, ascending. Values that cross a cut are kept, those within the last segment
// as well; the others are computed again, a segment at a time. Cuts stand where the least bytes cross them; how many
// there are is decided by the least predicted peak, for a network of equal layers about the square root of their
// number. None where cutting saves nothing. O(n log n).
std::vector<int> chooseCuts(int count, const std::vector<ForwardValue> &values);

}  // namespace popart::transforms
