// Which values of an anchor reach the host: all of a run, its last one, every N-th, their sum. As ops of the program:
//   loop { v; HostStore(v) }
//   → Final, EveryN   loop { v; If(number of the micro-batch is the last, the N-th …) { HostStore(v) } }
//   → Sum             sum = 0; loop { v; sum += v }; HostStore(sum)
// A branch takes no memory and copies nothing, which a value carried out of the loop would.
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

// Rewrites the HostStore ops of the streams in `types`, which stand in the main graph or in loops of a known number of
// iterations; a stream has one store. `microBatches`: of one run. All and EveryN count micro-batches: what is made once
// per update is returned again for each micro-batch of the update. A sum starts at zero in every loop around the store
// and is added up from the inside out. Where no loop is, one value is all there is. Throws popart::error for the sum of
// a type that cannot be added, naming the stream.
void applyReturnTypes(Ir &ir, const std::map<std::string, ReturnType> &types, int64_t microBatches);

}  // namespace popart::transforms
