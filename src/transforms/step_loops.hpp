// The loops of a step: micro-batches of one update, and batches of one run. The program of one micro-batch becomes the
// body of the inner loop, updates follow it; both together become the body of the outer one.
//   load, forward, backward, accumulate, update, store
//   →  loop batchesPerStep times { loop accumulationFactor times { load, forward, backward, accumulate, store }, update
// }
#pragma once
#include <popart/ir.hpp>

namespace popart::transforms {

// Ops whose executionContext is AccumulateOuterFragment stay in the main graph and run after the loop, as do stores of
// what they make; all others move into its body, so that a variable is stored with what the micro-batch did to it. What
// the body writes are variables; other values that stay behind read are carried out of the last iteration. Streams must
// have been replaced by HostLoad ops. A `count` of 1 changes nothing.
void addAccumulationLoop(Ir &ir, int64_t count);

// The whole main graph becomes the body of a loop of `count` batches, which works on the variables themselves. A
// `count` of 1 changes nothing.
void addMainLoop(Ir &ir, int64_t count);

}  // namespace popart::transforms
