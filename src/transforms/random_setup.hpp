// setUpRandomSeeds: derives the seeds of all random ops from one seed variable, with a different modifier for each op.
//   randomSeed___fromHost → GetRandomSeed → ModifyRandomSeed{1} → op 1
//                                         → ModifyRandomSeed{2} → op 2 …
// With several replicas, each derives its own seed from that of GetRandomSeed.
#pragma once
#include <optional>

#include <popart/ir.hpp>

namespace popart::transforms {

// Random ops without a seed, or with the seed variable randomSeed___fromHost, get their own seed, which changes with
// every micro-batch. Inside subgraphs the caller passes the seed in; in loops it also changes with every iteration.
// Variables that are seeds of single ops (kOwnRandomSeedPrefix) are treated in the same way, each separately, so that
// their numbers do not depend on other ops. Seeds that the program computes do not change. Returns the id of the
// variable randomSeed___fromHost, or nullopt if no op reads it. Throws popart::error for a random op without seed in a
// subgraph.
std::optional<TensorId> setUpRandomSeeds(Ir &ir, int64_t replicas);

}  // namespace popart::transforms
