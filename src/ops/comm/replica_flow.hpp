// How the results of an op depend on the replica that runs it.
#pragma once
#include <popart/op.hpp>

namespace popart::ops {

// Replicas in groups, as collectives state them; none: no group of several.
struct ReplicaGroup {
  int64_t size = 1, stride = 1;
  bool operator==(const ReplicaGroup &) const = default;
  // Whether each group of `other` lies in one of these.
  bool contains(const ReplicaGroup &other) const {
    return other.stride % stride == 0 && (size * stride) % (other.size * other.stride) == 0;
  }
};

// Follows: the same on replicas whose operands are the same. Own: each replica's own. Over a group of several: Reduces:
// for all members the same join of their operands; Gathers: all parts for all of them; Scatters: a part of the join for
// each of them; Cuts: a part of an operand that they have in common.
struct ReplicaFlow {
  enum Kind : uint8_t { Follows, Own, Reduces, Gathers, Scatters, Cuts } kind = Follows;
  ReplicaGroup group;
};
ReplicaFlow replicaFlow(const Op &op);

}  // namespace popart::ops
