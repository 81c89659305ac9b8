// Loops that run a known number of times, made by passes piece by piece.
#pragma once
#include <vector>

#include <popart/ir.hpp>

namespace popart::transforms {

// Adds a Loop of `count` iterations, named `settings.name`, to `graph`. Its body is a new graph that takes
// [iteration, condition] and gives [condition].
Op *addCountedLoop(Graph &graph, int64_t count, const Op::Settings &settings);

Graph &bodyOf(const Op &loop);

// Gives the body tensor `t` of the loop's graph, under the same id where it is free: input i of the loop is input i of
// the body. Returns i.
InIndex passIn(Op &loop, TensorIndex t);

// What the body writes into these inputs reaches the tensors that were passed in.
void writeThrough(Op &loop, const std::vector<InIndex> &inputs);

}  // namespace popart::transforms
