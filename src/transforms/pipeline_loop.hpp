// pipelineLoops: turns loops over micro-batches whose bodies have stages into pipelines.
//
//   loop N times { stages 0, 1, 2 of micro-batch i }
//   →  fill    cycle 0: stage 0 of 0;                 cycle 1: stage 1 of 0, stage 0 of 1
//      loop    N-2 times: stage 2 of i, stage 1 of i+1, stage 0 of i+2
//      drain   cycle N: stage 2 of N-2, stage 1 of N-1;    cycle N+1: stage 2 of N-1
//
// Each stage is a graph that is called. Values for the next stage are carried to the next cycle. Values for later
// stages are stored in a ring buffer with one row for each cycle in between: `Stashed___x` is the ring buffer,
// `Restored___x` the row that is read.
#pragma once
#include <popart/ir.hpp>

namespace popart::transforms {

// Rewrites every Loop of a known number of iterations whose body has ops of at least two stages. Within a cycle, later
// stages run first. Memory that the body changes is changed in the order of the iterations, so that results keep their
// bits. Throws popart::error if there are fewer iterations than stages. Returns the number of loops rewritten.
int pipelineLoops(Ir &ir);

}  // namespace popart::transforms
