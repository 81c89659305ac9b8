// Which values of a program are equal on several replicas, whatever the data of the replicas.
//
//   Same     on the replicas of a group: constants; results of collectives that each member of a group gets; streams of
//            one number (a learning rate, a loss scale, which hosts pass equally to all replicas)
//   Parts    on replicas with the same position in their group: results of a scatter, sharded state
//   Differs  all others, and results that depend on data
//
// Results of ops are derived from their operands, and variables from the values written to them. Initial values of
// variables are not considered; the caller may know more about them.
#pragma once
#include <functional>
#include <vector>

#include "lower/program_tensors.hpp"
#include "ops/comm/replica_flow.hpp"

namespace popart::lower {

struct ReplicaValue {
  enum Kind : uint8_t { Same, Parts, Differs } kind = Same;
  ops::ReplicaGroup group;  // of Parts
  bool operator==(const ReplicaValue &) const = default;
};

class ReplicaValues {
 public:
  // `differs`: whether replicas may have different values of a variable or a stream.
  using Differs = std::function<bool(const Tensor &)>;
  explicit ReplicaValues(const Ir &flat, const Differs &differs = {});
  // Not for tensors that were added later.
  ReplicaValue of(const Graph &graph, TensorIndex t) const { return values_[tensors_.number(graph, t)]; }

 private:
  bool add(const Graph &graph, TensorIndex t, const ReplicaValue &value);
  bool visit(const Op &op);
  bool visitCall(const Op &op);
  ReplicaValue operandsOf(const Op &op) const;

  ProgramTensors tensors_;
  std::vector<ReplicaValue> values_;
};

}  // namespace popart::lower
