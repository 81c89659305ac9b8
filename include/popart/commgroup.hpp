// CommGroup and ReplicaGrouping: which replicas belong together (PopART C++ API, "CommGroup", "ReplicaGrouping").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace popart {

enum class CommGroupType { All = 0, Consecutive, Orthogonal, None, N, Ungrouped = None };

class ReplicaGrouping {
 public:
  explicit ReplicaGrouping(unsigned numReplicas) : ReplicaGrouping(numReplicas, 1, numReplicas) {}
  // Throws popart::error unless stride * groupSize divides numReplicas. Group size 1 normalises stride to 1.
  ReplicaGrouping(unsigned numReplicas, unsigned stride, unsigned groupSize);
  unsigned getNumReplicas() const { return numReplicas_; }
  unsigned getStride() const { return stride_; }
  unsigned getGroupSize() const { return groupSize_; }
  unsigned getNumGroups() const { return numReplicas_ / groupSize_; }
  unsigned getGroupAt(unsigned replica) const;
  unsigned getIndexInGroupAt(unsigned replica) const;
  unsigned getReplicaAt(unsigned group, unsigned index = 0) const;
  std::vector<unsigned> getReplicasAt(unsigned group) const;
  ReplicaGrouping getTranspose() const;
  std::string str() const;
  bool operator==(const ReplicaGrouping &) const = default;

 private:
  unsigned numReplicas_, stride_, groupSize_;
};

class CommGroup {
 public:
  CommGroup() = default;
  CommGroup(CommGroupType t, unsigned groupSize) : type(t), replicaGroupSize(groupSize) {}
  explicit CommGroup(const ReplicaGrouping &grouping);
  ReplicaGrouping toReplicaGrouping(unsigned numReplicas) const;
  bool operator==(const CommGroup &) const = default;
  CommGroupType type = CommGroupType::All;
  unsigned replicaGroupSize = 0;
};

}  // namespace popart
