// Tensors of which each replica keeps a part: a group of replicas shares one out, replica i of the group has the
// elements i * n ... (i + 1) * n - 1 of the flattened tensor, n = ceil(elements / replicas of the group), zeros behind
// the last one.
#pragma once
#include <map>
#include <optional>

#include <popart/graph.hpp>

namespace popart::transforms {

// A variable that is in parts; on the replicas it has the shape {n} and one value each.
struct Sharding {
  TensorInfo whole;              // what the parts make together
  VariableSettings settings;     // which replicas share a whole value, and how the host gets it
  ReplicaGrouping domain{1};     // which replicas share one out; each group within those that share a value
  int64_t partElements() const;  // n
  unsigned replicas() const { return domain.getNumReplicas(); }
  TensorInfo hostInfo() const;  // of the whole values, as the host sees them
  TensorInfo partInfo() const;  // of one part
  // Between values of hostInfo() and those of all parts, one behind the other in the order of the replicas. join takes
  // the value of the lowest replicas.
  TensorData cut(const TensorData &whole) const;
  TensorData join(const TensorData &parts) const;
  TensorData joinForEach(const TensorData &parts) const;  // the whole value of each replica, in their order
};

// Variables in parts, by id.
using Shardings = std::map<TensorId, Sharding>;

// What is in parts.
struct ShardRules {
  struct Kind {
    bool sharded = false;
    int64_t leastElements = 8192;  // smaller tensors stay whole
    CommGroup domain;              // replicas that share a tensor out; All: those that share its value
  };
  Kind weights, optimizerState, accumulators;
  std::map<TensorId, Kind> byTensor;  // comes before the kind, whatever the size
  int64_t replicas = 1;

  bool any() const;  // never with one replica
  const Kind &of(const Tensor &variable) const;
  // Whether `weight`, or state of it, may be in parts: its update is then one of the whole weight.
  bool mayShardUpdateOf(const Tensor &weight) const;
};

// How the rules put `variable` into parts; nothing: it stays whole. Throws popart::error: a domain that does not divide
// the replicas, or those that share the variable; a tensor of one element by name.
std::optional<Sharding> shardingOf(const Tensor &variable, const ShardRules &rules);

// Puts the variables of the main graph into parts that the rules say; their readers are as before. Ops from index
// `firstUpdate` on work on parts; a variable that an earlier op changes stays whole. Throws popart::error: what
// shardingOf throws, and by name: a tensor that is no variable, a variable that an earlier op changes.
Shardings shareOut(Graph &main, const ShardRules &rules, int64_t firstUpdate);

// The whole tensor of the parts `part`, with the id `id` or the next free one.
TensorIndex gatherParts(Graph &graph, TensorIndex part, const ReplicaGrouping &domain, const Shape &whole,
                        const TensorId &id, const Op::Settings &settings);
// Its parts from a whole tensor that the group has in common.
TensorIndex takePart(Graph &graph, TensorIndex whole, const ReplicaGrouping &domain, const Op::Settings &settings);

// The attributes of a collective over `group`: group_size, stride, op.
Attributes overGroup(const ReplicaGrouping &group, const std::string &op);

}  // namespace popart::transforms
