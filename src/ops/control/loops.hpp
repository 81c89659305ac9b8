// Facts of Call, Loop and If that several rooms need. See control.cpp for the layout of inputs and outputs.
#pragma once
#include <popart/graph.hpp>

namespace popart::ops {

// How many values a Loop carries from one iteration to the next.
int carriedCount(const Op &loop);

// Whether `t` is a constant that holds true.
bool isConstantTrue(const Graph &graph, TensorIndex t);

// Whether a loop over `body` goes on after every iteration: the condition it returns is the one it was given, or true.
bool keepsRunning(const Graph &body);

// The number of iterations of a loop that runs as often as its constant trip count says; -1 when the number is not
// known when the graph is built.
int64_t iterationCount(const Op &loop);

// The carried value that counts the iterations of a loop that may end before its trip count; -1 when it has none.
int loopCounter(const Op &loop);

// Throws popart::error when an input of a graph that `op` runs is not connected (PopXL leaves them open with
// check_inputs=False). Nothing happens for ops that run no graph.
void requireCalledInputs(const Op &op);

}  // namespace popart::ops
