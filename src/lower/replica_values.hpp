// Which values of a program are the same on the replicas of a group, whatever data these are given.
//
// Constants are, and variables that a group of several replicas shares, as long as nothing else is written to them;
// what collectives give to each member of a group; streams of one number (a learning rate, a loss scale, which hosts
// give to all replicas alike); and results of ops that read such values only. All others may differ.
#pragma once
#include <vector>

#include "lower/program_tensors.hpp"

namespace popart::lower {

class ReplicaValues {
 public:
  explicit ReplicaValues(const Ir &flat);
  // Whether the tensor may differ between the replicas of a group. Tensors added later must not be asked for.
  bool differ(const Graph &graph, TensorIndex t) const { return differs_[tensors_.number(graph, t)] != 0; }

 private:
  bool mark(const Graph &graph, TensorIndex t, bool differs);
  bool visit(const Op &op);
  bool visitCall(const Op &op);
  bool readsDiffering(const Op &op) const;

  ProgramTensors tensors_;
  std::vector<char> differs_;
};

}  // namespace popart::lower
