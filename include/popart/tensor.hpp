// Tensor: a typed edge of a graph: id, info, role, producer and consumers. Only Graph edits the edges.
#pragma once
#include <string>
#include <vector>

#include <popart/ids.hpp>
#include <popart/tensordata.hpp>
#include <popart/variablesettings.hpp>

namespace popart {

class Graph;
class Op;
class Tensor;

// Roles. ActGrad: produced by an op or input of a subgraph; Stream: filled by the host each
// batch.
enum class TensorType { ActGrad = 0, Const, Stream, Unknown, Variable, N };

// An input of an op of the tensor's graph.
struct Use {
  OpIndex op;     // of the tensor's graph
  InIndex input;  // index among the op's inputs
  bool operator==(const Use &) const = default;
};

// The ops that read a tensor.
class Consumers {
 public:
  explicit Consumers(const Tensor &tensor) : tensor_(tensor) {}
  std::vector<Op *> getOps() const;  // without repetitions
  int getTotal() const;              // number of inputs that are the tensor
  int n(const Op *op) const;         // the same for one op

 private:
  const Tensor &tensor_;
};

// Owned by its graph.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;

  TensorId id;                       // changed by Graph::renameTensor only
  TensorInfo info;                   // unset until the producer is set up
  const Consumers consumers{*this};  // the ops that read it

  TensorIndex index() const { return index_; }
  Graph &getGraph() const { return *graph_; }
  const TensorId &str() const { return id; }
  TensorType tensorType() const { return type_; }
  void setTensorType(TensorType t) { type_ = t; }

  bool hasProducer() const { return producer_.valid(); }
  Op *getProducer() const;        // throws internal_error if there is none
  Op *getProducerUnsafe() const;  // null if there is none
  OpIndex producerIndex() const { return producer_; }
  OutIndex producerOutput() const { return producerOutput_; }
  const std::vector<Use> &uses() const { return uses_; }  // in the order they were connected
  std::vector<Op *> consumerOps() const;                  // without repetitions

  bool isGraphInput() const;   // of its own graph
  bool isGraphOutput() const;  // of its own graph

  // Values of Const and Variable tensors.
  bool hasTensorData() const { return !data_.empty(); }
  const TensorData &tensorData() const { return data_; }
  TensorData &mutableTensorData() { return data_; }
  void setTensorData(TensorData data) { data_ = std::move(data); }

  // Variables only: how replicas share it.
  VariableSettings variableSettings;
  bool isOptimizerState = false;
  // Variables only: stored in remote memory, which only RemoteLoad and RemoteStore access; no op reads it directly.
  // RemoteLoad and RemoteStore with an offset access rows of it, along its first dimension.
  bool isRemote = false;
  // Graph inputs only: writes inside the graph reach the caller's tensor.
  bool byReference = false;
  // Lowered programs: the layout of the elements in device memory, by the name that the device uses. Empty: C order.
  std::string layout;

 private:
  friend class Graph;
  Graph *graph_ = nullptr;
  TensorIndex index_;
  TensorType type_ = TensorType::Unknown;
  OpIndex producer_;
  OutIndex producerOutput_ = 0;
  std::vector<Use> uses_;
  TensorData data_;
};

}  // namespace popart
