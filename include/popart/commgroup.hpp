// CommGroup and ReplicaGrouping: how replicas form groups.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace popart {

// Groups of size S of N replicas: All: one group; Consecutive: {0..S-1}, …; Orthogonal: {i, i+N/S, …}; None: each
// alone.
enum class CommGroupType { All = 0, Consecutive, Orthogonal, None, N, Ungrouped = None };

// Groups of `groupSize` replicas whose numbers are `stride` apart. Queries throw popart::error for numbers out of
// range.
class ReplicaGrouping {
 public:
  explicit ReplicaGrouping(unsigned numReplicas) : ReplicaGrouping(numReplicas, 1, numReplicas) {}
  // Throws popart::error unless stride * groupSize divides numReplicas. Group size 1 normalises stride to 1.
  ReplicaGrouping(unsigned numReplicas, unsigned stride, unsigned groupSize);
  unsigned getNumReplicas() const { return numReplicas_; }
  unsigned getStride() const { return stride_; }
  unsigned getGroupSize() const { return groupSize_; }
  unsigned getNumGroups() const { return numReplicas_ / groupSize_; }
  unsigned getGroupAt(unsigned replica) const;         // group of a replica
  unsigned getIndexInGroupAt(unsigned replica) const;  // its index in the group
  unsigned getReplicaAt(unsigned group, unsigned index = 0) const;
  std::vector<unsigned> getReplicasAt(unsigned group) const;
  // Replicas with the same index become a group. Throws popart::error if they have no constant stride.
  ReplicaGrouping getTranspose() const;
  std::string str() const;
  bool operator==(const ReplicaGrouping &) const = default;

 private:
  unsigned numReplicas_, stride_, groupSize_;
};

// The older form: a type and a size.
class CommGroup {
 public:
  CommGroup() = default;
  CommGroup(CommGroupType t, unsigned groupSize) : type(t), replicaGroupSize(groupSize) {}
  // Throws popart::error if the grouping has no such form (a stride that is neither 1 nor the number of groups).
  explicit CommGroup(const ReplicaGrouping &grouping);
  // Throws popart::error if the size does not divide `numReplicas`.
  ReplicaGrouping toReplicaGrouping(unsigned numReplicas) const;
  bool operator==(const CommGroup &) const = default;
  CommGroupType type = CommGroupType::All;
  unsigned replicaGroupSize = 0;  // not used by All and None
};

}  // namespace popart
