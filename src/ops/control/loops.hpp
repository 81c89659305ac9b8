// Queries about Call, Loop and If for several rooms. See control.cpp for the layout of inputs and outputs.
#pragma once
#include <popart/graph.hpp>

namespace popart::ops {

// The number of values that a Loop carries from one iteration to the next.
int carriedCount(const Op &loop);

// Whether `t` is a constant that holds true.
bool isConstantTrue(const Graph &graph, TensorIndex t);

// Whether a loop over `body` continues after every iteration: the condition that it returns is its input, or true.
bool keepsRunning(const Graph &body);

// The number of iterations of a loop that runs as often as its constant trip count says; -1 when the number is unknown
// when the graph is built.
int64_t iterationCount(const Op &loop);

// The carried value that counts the iterations of a loop that may end before its trip count; -1: there is none.
int loopCounter(const Op &loop);

// Throws popart::error when an input of a graph that `op` runs is not connected (PopXL leaves inputs open with
// check_inputs=False). Does nothing for ops that run no graph.
void requireCalledInputs(const Op &op);

}  // namespace popart::ops
