// ReplicaFlow: how the results of an op depend on the replica that runs it.
#pragma once
#include <popart/op.hpp>

namespace popart::ops {

// Groups of replicas, as collectives state them; empty: each group has one replica.
struct ReplicaGroup {
  int64_t size = 1, stride = 1;
  bool operator==(const ReplicaGroup &) const = default;
  // Whether each group of `other` is inside one of these groups.
  bool contains(const ReplicaGroup &other) const {
    return other.stride % stride == 0 && (size * stride) % (other.size * other.stride) == 0;
  }
};

// Follows: results are the same on replicas with the same operands. Own: results differ on every replica. The others
// apply to a group of several replicas. Reduces: all members get the same join of their operands. Gathers: all members
// get all parts. Scatters: each member gets a part of the join. Cuts: each member gets a part of an operand that all
// members share.
struct ReplicaFlow {
  enum Kind : uint8_t { Follows, Own, Reduces, Gathers, Scatters, Cuts } kind = Follows;
  ReplicaGroup group;
};
ReplicaFlow replicaFlow(const Op &op);

}  // namespace popart::ops
