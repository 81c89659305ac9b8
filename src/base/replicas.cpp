// Replica groups, variable settings and tensor locations.
#include <popart/commgroup.hpp>
#include <popart/error.hpp>
#include <popart/tensorlocation.hpp>
#include <popart/variablesettings.hpp>

namespace popart {

ReplicaGrouping::ReplicaGrouping(unsigned numReplicas, unsigned stride, unsigned groupSize)
    : numReplicas_(numReplicas), stride_(groupSize == 1 ? 1 : stride), groupSize_(groupSize) {
  check(numReplicas > 0 && stride > 0 && groupSize > 0 && numReplicas % (stride_ * groupSize) == 0,
        "ReplicaGrouping: stride x group size must divide the number of replicas: got stride {}, group size {}, {} "
        "replicas",
        stride, groupSize, numReplicas);
}

unsigned ReplicaGrouping::getGroupAt(unsigned replica) const {
  check(replica < numReplicas_, "ReplicaGrouping: replica is out of range: got {}, expected below {}", replica,
        numReplicas_);
  return replica % stride_ + stride_ * (replica / (stride_ * groupSize_));
}

unsigned ReplicaGrouping::getIndexInGroupAt(unsigned replica) const {
  check(replica < numReplicas_, "ReplicaGrouping: replica is out of range: got {}, expected below {}", replica,
        numReplicas_);
  return replica % (stride_ * groupSize_) / stride_;
}

unsigned ReplicaGrouping::getReplicaAt(unsigned group, unsigned index) const {
  check(group < getNumGroups() && index < groupSize_, "ReplicaGrouping: group {} or index {} is out of range", group,
        index);
  return (group / stride_) * stride_ * groupSize_ + group % stride_ + index * stride_;
}

std::vector<unsigned> ReplicaGrouping::getReplicasAt(unsigned group) const {
  std::vector<unsigned> replicas;
  for (unsigned i = 0; i < groupSize_; ++i) replicas.push_back(getReplicaAt(group, i));
  return replicas;
}

ReplicaGrouping ReplicaGrouping::getTranspose() const {
  const unsigned size = getNumGroups();
  check(stride_ == 1 || stride_ * groupSize_ == numReplicas_,
        "ReplicaGrouping {}: the transpose has no constant stride", str());
  return ReplicaGrouping(numReplicas_, stride_ == 1 ? groupSize_ : 1, size);
}

std::string ReplicaGrouping::str() const {
  return "ReplicaGrouping(numReplicas=" + toText(numReplicas_) + ", stride=" + toText(stride_) +
         ", groupSize=" + toText(groupSize_) + ")";
}

CommGroup::CommGroup(const ReplicaGrouping &g) {
  if (g.getGroupSize() == g.getNumReplicas()) {
    *this = CommGroup(CommGroupType::All, 0);
  } else if (g.getGroupSize() == 1) {
    *this = CommGroup(CommGroupType::None, 1);
  } else if (g.getStride() == 1) {
    *this = CommGroup(CommGroupType::Consecutive, g.getGroupSize());
  } else {
    check(g.getStride() * g.getGroupSize() == g.getNumReplicas(), "{} has no CommGroup form", g);
    *this = CommGroup(CommGroupType::Orthogonal, g.getGroupSize());
  }
}

ReplicaGrouping CommGroup::toReplicaGrouping(unsigned n) const {
  switch (type) {
    case CommGroupType::All:
      return ReplicaGrouping(n, 1, n);
    case CommGroupType::Consecutive:
      return ReplicaGrouping(n, 1, replicaGroupSize);
    case CommGroupType::Orthogonal:
      return ReplicaGrouping(n, replicaGroupSize ? n / replicaGroupSize : 0, replicaGroupSize);
    case CommGroupType::None:
      return ReplicaGrouping(n, 1, 1);
    default:
      throw error("CommGroup: unknown type {}", static_cast<int>(type));
  }
}

VariableSettings::VariableSettings(unsigned stride, unsigned groupSize, VariableRetrievalMode mode)
    : useCommGroup_(false), stride_(stride), groupSize_(groupSize), mode_(mode) {
  verify();
}

void VariableSettings::verify() const {
  const bool needsSize = domain_.type == CommGroupType::Consecutive || domain_.type == CommGroupType::Orthogonal;
  if (useCommGroup_ && needsSize && domain_.replicaGroupSize == 0)
    throw internal_error("VariableSettings: a Consecutive or Orthogonal group needs a group size above 0");
  if (!useCommGroup_ && (stride_ == 0 || groupSize_ == 0))
    throw internal_error("VariableSettings: stride and group size must be above 0");
  if (static_cast<int>(mode_) < 0 || static_cast<int>(mode_) > 2)
    throw internal_error("VariableSettings: unknown retrieval mode");
}

ReplicaGrouping VariableSettings::getReplicaGrouping(unsigned n) const {
  if (n == 1) return ReplicaGrouping(1);  // programs for several replicas run on one as well
  return useCommGroup_ ? domain_.toReplicaGrouping(n) : ReplicaGrouping(n, stride_, groupSize_);
}
unsigned VariableSettings::getGroupCount(unsigned n) const { return getReplicaGrouping(n).getNumGroups(); }
unsigned VariableSettings::getRealGroupSize(unsigned n) const { return getReplicaGrouping(n).getGroupSize(); }
unsigned VariableSettings::numReplicasReturningVariable(unsigned n) const {
  return mode_ == VariableRetrievalMode::AllReplicas ? n : getGroupCount(n);
}
unsigned VariableSettings::getGroupRepresentative(unsigned group, unsigned n) const {
  if (n > 0) return getReplicaGrouping(n).getReplicaAt(group);
  if (!useCommGroup_) return (group / stride_) * stride_ * groupSize_ + group % stride_;
  return domain_.type == CommGroupType::Consecutive ? group * domain_.replicaGroupSize
         : domain_.type == CommGroupType::All       ? 0
                                                    : group;
}

Shape VariableSettings::shapeOnReplica(const Shape &full, unsigned n, const TensorId &name) const {
  const int64_t groups = getGroupCount(n);
  if (groups == 1) return full;
  check(!full.empty() && full[0] == groups,
        "variable '{}': the leading dimension must be the number of replica groups: got shape {}, expected {} groups",
        name, full, groups);
  return Shape(full.begin() + 1, full.end());
}

Shape VariableSettings::shapeOnHost(const Shape &replicaShape, unsigned n) const {
  const int64_t groups = getGroupCount(n);
  Shape shape = replicaShape;
  if (groups > 1) shape.insert(shape.begin(), groups);
  return shape;
}

std::vector<std::vector<int64_t>> VariableSettings::groups(unsigned n) const {
  const ReplicaGrouping g = getReplicaGrouping(n);
  std::vector<std::vector<int64_t>> result;
  for (unsigned i = 0; i < g.getNumGroups(); ++i) {
    const auto replicas = g.getReplicasAt(i);
    result.emplace_back(replicas.begin(), replicas.end());
  }
  return result;
}

std::vector<int64_t> TensorLocation::serialize() const {
  return {static_cast<int64_t>(storage),
          static_cast<int64_t>(loadTileSet),
          static_cast<int64_t>(storageTileSet),
          static_cast<int64_t>(replicatedTensorSharding),
          static_cast<int64_t>(shardingDomain.type),
          static_cast<int64_t>(shardingDomain.replicaGroupSize)};
}

}  // namespace popart
