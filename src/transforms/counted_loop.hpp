// Functions with which passes build loops with a known number of iterations.
#pragma once
#include <vector>

#include <popart/ir.hpp>

namespace popart::transforms {

// Adds a Loop of `count` iterations, named `settings.name`, to `graph`. Its body is a new graph with inputs [iteration,
// condition] and output [condition].
Op *addCountedLoop(Graph &graph, int64_t count, const Op::Settings &settings);

Graph &bodyOf(const Op &loop);

// Passes `t`, a tensor of the loop's graph, into the body, with the same id if it is free: input i of the loop is input
// i of the body. Returns i.
InIndex passIn(Op &loop, TensorIndex t);

// Lets the body's writes to these inputs change the tensors that were passed in.
void writeThrough(Op &loop, const std::vector<InIndex> &inputs);

}  // namespace popart::transforms
