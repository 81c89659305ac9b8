// How the results of an op depend on the replica that runs it.
#pragma once
#include <popart/op.hpp>

namespace popart::ops {

// Follows: the same on replicas whose operands are the same. Differs: each replica's own. Joins: the same on all
// replicas of a group of several, whatever the operands.
enum class ReplicaFlow : uint8_t { Follows, Differs, Joins };
ReplicaFlow replicaFlow(const Op &op);

}  // namespace popart::ops
