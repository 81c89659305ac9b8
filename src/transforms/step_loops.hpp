// The loops of a step: over the micro-batches of one update, and over the batches of one run. The program of one
// micro-batch becomes the body of the inner loop, followed by updates; both become the body of the outer loop.
//   load, forward, backward, accumulate, update, store
//   →  loop batchesPerStep times { loop accumulationFactor times { load, forward, backward, accumulate, store }, update
// }
#pragma once
#include <popart/ir.hpp>

namespace popart::transforms {

// Ops whose executionContext is AccumulateOuterFragment stay in the main graph and run after the loop, and so do stores
// of their results. All others move into its body, so that a variable is stored as the micro-batch left it. The body
// may write only variables; other values that remaining ops read are carried out of the last iteration. Streams must
// already be replaced by HostLoad ops. A `count` of 1 changes nothing.
void addAccumulationLoop(Ir &ir, int64_t count);

// Makes the whole main graph the body of a loop over `count` batches, which changes the variables directly. A
// `count` of 1 changes nothing.
void addMainLoop(Ir &ir, int64_t count);

}  // namespace popart::transforms
