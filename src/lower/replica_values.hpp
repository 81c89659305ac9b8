// Which values of a program are the same on several replicas, whatever data these are given.
//
//   Same     on the replicas of a group: constants; what collectives give to each member of a group; streams of one
//            number (a learning rate, a loss scale, which hosts give to all replicas alike)
//   Parts    on replicas that have the same place in their group: what a scatter gives, state that is in parts
//   Differs  all others, and what reads data
//
// Results of ops are what their operands are, and variables are what is written to them: their first values say nothing
// of how replicas differ in the rest of the program. Who asks may know more of them.
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
  // `differs`: of a variable, or of what a stream gives, whether replicas may have different values.
  using Differs = std::function<bool(const Tensor &)>;
  explicit ReplicaValues(const Ir &flat, const Differs &differs = {});
  // Tensors added later must not be asked for.
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
