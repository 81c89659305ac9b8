// Tensors that are divided among the replicas of a group: replica i of the group has the elements i * n ... (i + 1) * n
// - 1 of the flattened tensor, n = ceil(elements / replicas of the group), padded with zeros after the last one.
#pragma once
#include <map>
#include <optional>

#include <popart/graph.hpp>

namespace popart::transforms {

// A variable that is in parts; each replica has one value of shape {n}.
struct Sharding {
  TensorInfo whole;              // the whole tensor
  VariableSettings settings;     // which replicas share a whole value, and how the host gets it
  ReplicaGrouping domain{1};     // replicas that hold the parts; each group is within those that share a value
  int64_t partElements() const;  // n
  unsigned replicas() const { return domain.getNumReplicas(); }
  TensorInfo hostInfo() const;  // of the whole values on the host
  TensorInfo partInfo() const;  // of one part
  // Convert between values of hostInfo() and those of all parts, concatenated in the order of the replicas. join
  // returns the value of the lowest replicas.
  TensorData cut(const TensorData &whole) const;
  TensorData join(const TensorData &parts) const;
  TensorData joinForEach(const TensorData &parts) const;  // the whole value of each replica, in their order
};

// Variables in parts, by id.
using Shardings = std::map<TensorId, Sharding>;

// Which variables are in parts.
struct ShardRules {
  struct Kind {
    bool sharded = false;
    int64_t leastElements = 8192;  // smaller tensors stay whole
    CommGroup domain;              // replicas that hold the parts of a tensor; All: those that share its value
  };
  Kind weights, optimizerState, accumulators;
  std::map<TensorId, Kind> byTensor;  // takes precedence over kind and size
  int64_t replicas = 1;

  bool any() const;  // false with one replica
  const Kind &of(const Tensor &variable) const;
  // Whether `weight`, or its state, may be in parts; then its update must not be divided in other ways.
  bool mayShardUpdateOf(const Tensor &weight) const;
};

// How the rules divide `variable`; nullopt: it stays whole. Throws popart::error if the domain does not divide the
// replicas, or those that share the variable, or if a named tensor has one element.
std::optional<Sharding> shardingOf(const Tensor &variable, const ShardRules &rules);

// Divides the variables of the main graph that the rules select; their readers do not change. Ops from index
// `firstUpdate` on work on parts; a variable that an earlier op changes stays whole. Throws popart::error as
// shardingOf, and if a named tensor is not a variable, or an earlier op changes it.
Shardings shareOut(Graph &main, const ShardRules &rules, int64_t firstUpdate);

// Adds a gather of the parts `part` to a whole tensor, with the id `id` or the next free one.
TensorIndex gatherParts(Graph &graph, TensorIndex part, const ReplicaGrouping &domain, const Shape &whole,
                        const TensorId &id, const Op::Settings &settings);
// Adds a slice: this replica's part of a whole tensor that is equal in the group.
TensorIndex takePart(Graph &graph, TensorIndex whole, const ReplicaGrouping &domain, const Op::Settings &settings);

// The attributes of a collective over `group`: group_size, stride, op.
Attributes overGroup(const ReplicaGrouping &group, const std::string &op);

}  // namespace popart::transforms
