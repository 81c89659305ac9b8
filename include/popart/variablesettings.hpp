// VariableSettings: which replicas share a variable, and which values the host reads.
#pragma once
#include <popart/commgroup.hpp>
#include <popart/names.hpp>

namespace popart {

// The values that the host reads: one replica's of each group, the group's mean, every replica's.
enum class VariableRetrievalMode { OnePerGroup = 0, AllReduceReplicas, AllReplicas };

// A grouping of replicas, as CommGroup or as stride and size, and a mode. Default: all replicas share one value.
class VariableSettings {
 public:
  VariableSettings() = default;
  // Constructors throw popart::internal_error as verify() does.
  explicit VariableSettings(CommGroup domain, VariableRetrievalMode mode = VariableRetrievalMode::OnePerGroup)
      : domain_(domain), mode_(mode) {
    verify();
  }
  explicit VariableSettings(VariableRetrievalMode mode) : mode_(mode) { verify(); }
  VariableSettings(unsigned stride, unsigned groupSize, VariableRetrievalMode mode);

  // Functions with a number of replicas throw popart::error if the groups do not divide it.
  ReplicaGrouping getReplicaGrouping(unsigned numReplicas) const;
  const CommGroup &getSharedVariableDomain() const { return domain_; }
  bool isUsingCommGroup() const { return useCommGroup_; }
  CommGroupType getCommGroupType() const { return domain_.type; }
  unsigned getStride() const { return stride_; }
  unsigned getGroupSize() const { return groupSize_; }
  VariableRetrievalMode getRetrievalMode() const { return mode_; }
  unsigned numReplicasReturningVariable(unsigned replicaCount) const;
  unsigned getGroupCount(unsigned replicaCount) const;
  unsigned getRealGroupSize(unsigned replicaCount) const;
  unsigned getGroupRepresentative(unsigned group, unsigned replicaCount = 0) const;  // lowest replica of a group
  // Strips / prepends the leading group dimension; throws popart::error naming `name` on mismatch.
  Shape shapeOnReplica(const Shape &fullShape, unsigned replicaCount, const TensorId &name) const;
  Shape shapeOnHost(const Shape &replicaShape, unsigned replicaCount) const;
  std::vector<std::vector<int64_t>> groups(unsigned replicaCount) const;
  void verify() const;  // throws popart::internal_error for impossible settings
  bool operator==(const VariableSettings &) const = default;

 private:
  CommGroup domain_;
  bool useCommGroup_ = true;
  unsigned stride_ = 1, groupSize_ = 0;
  VariableRetrievalMode mode_ = VariableRetrievalMode::OnePerGroup;
};

}  // namespace popart
