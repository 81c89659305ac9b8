// Gradient accumulation: the program of one micro-batch becomes the body of a loop, the weight updates follow it.
//   load, forward, backward, accumulate, update, store
//   →  loop N times { load, forward, backward, accumulate, store }, update
#pragma once
#include <popart/ir.hpp>

namespace popart::transforms {

// Ops whose executionContext is AccumulateOuterFragment stay in the main graph and run after the loop; all others move
// into its body. What the body writes are variables; other values that stay behind read (Final and Sum anchors among
// them) are carried out of the last iteration. Anchors that return every value store a tensor of the main graph `count`
// times. Streams must have been replaced by HostLoad ops. A `count` of 1 changes nothing.
void addAccumulationLoop(Ir &ir, int64_t count);

}  // namespace popart::transforms
