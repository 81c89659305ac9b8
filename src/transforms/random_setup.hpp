// setUpRandomSeeds: one seed variable feeds all random ops, each through a modifier of its own.
//   randomSeed___fromHost → GetRandomSeed → ModifyRandomSeed{1} → op 1
//                                         → ModifyRandomSeed{2} → op 2 …
// With several replicas each makes a seed of its own from that of GetRandomSeed.
#pragma once
#include <optional>

#include <popart/ir.hpp>

namespace popart::transforms {

// Random ops whose seed is the variable randomSeed___fromHost, or that have none, get a seed of their own that changes
// with every micro-batch; inside subgraphs the seed comes in through the caller, in loops it also changes with every
// iteration. Variables that are seeds of single ops (kOwnRandomSeedPrefix) are treated alike, each by itself, so that
// their numbers depend on no other op. Seeds that the program made itself stay. Returns the id of the variable
// randomSeed___fromHost; nothing when no op reads it.
// Throws popart::error for a random op without seed in a subgraph.
std::optional<TensorId> setUpRandomSeeds(Ir &ir, int64_t replicas);

}  // namespace popart::transforms
