// The values of an anchor that are sent to the host: all of a run, the last one, every N-th, or the sum. As ops:
//   loop { v; HostStore(v) }
//   → Final, EveryN   loop { v; If(number of the micro-batch is the last, the N-th …) { HostStore(v) } }
//   → Sum             sum = 0; loop { v; sum += v }; HostStore(sum)
// A branch needs no memory and no copy, unlike a value that is carried out of the loop.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include <popart/ir.hpp>

namespace popart::transforms {

struct ReturnType {
  enum class Kind : uint8_t { All, Final, EveryN, Sum };
  Kind kind = Kind::All;
  int64_t period = 1;  // EveryN: the period-th, 2 period-th … micro-batch of a run, 1 or more
};

// Rewrites the HostStore ops of the streams in `types`, which are in the main graph or in loops of a known number of
// iterations; a stream has one store. `microBatches`: of one run. All and EveryN count micro-batches: a value made once
// per update is returned again for each micro-batch of the update. A sum starts at zero in every loop around the store
// and is added from the inside out. Without loops there is only one value. Throws popart::error, naming the stream, for
// the sum of a type that cannot be added.
void applyReturnTypes(Ir &ir, const std::map<std::string, ReturnType> &types, int64_t microBatches);

}  // namespace popart::transforms
