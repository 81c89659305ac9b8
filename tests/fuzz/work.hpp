// How much a run of a damaged program would do: what is too much is not run.
#pragma once
#include <popart/ir.hpp>

namespace popart::fuzz {

constexpr int64_t kMostElements = 4'000;  // of a tensor of a program that is run
constexpr int64_t kMostWork = 100'000;    // elements of all tensors, as often as loops make them

// Elements that a run of the graph makes; more than kMostWork when it cannot be told.
int64_t work(const Graph &graph);

}  // namespace popart::fuzz
