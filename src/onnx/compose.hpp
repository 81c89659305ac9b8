// Composer: for writing operators as ops of the catalog. Values have arithmetic operators, in the node's graph or in
// the body of a loop that an import rule makes. Each op is inferred, and folded if it is constant, when it is written.
//
//   Composer in(node);
//   const Value x = in.input(0);
//   in.result(0, x * sigmoid(x));
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "onnx/importer.hpp"

namespace popart::onnx {

class Composer;

// A tensor of the graph that a Composer writes; a default-constructed one is absent.
class Value {
 public:
  Value() = default;
  Value(Composer &composer, TensorIndex tensor) : composer_(&composer), tensor_(tensor) {}

  bool valid() const { return tensor_.valid(); }
  TensorIndex tensor() const { return tensor_; }
  Composer &composer() const { return *composer_; }
  const TensorInfo &info() const;
  const Shape &shape() const { return info().shape(); }
  DataType type() const { return info().dataType(); }
  int rank() const { return info().rank(); }
  int64_t dim(int axis) const;  // negative: from the end

  // Adds the op `type` with this value and the others as inputs; it has one output.
  Value op(std::string_view type, const std::vector<Value> &others = {}, Attributes attributes = {}) const;
  std::vector<Value> ops(std::string_view type, int outputs, const std::vector<Value> &others = {},
                         Attributes attributes = {}) const;

  // These return the value itself if there is nothing to do.
  Value reshape(const Shape &shape) const;
  Value transpose(const std::vector<int64_t> &order) const;
  Value cast(DataType type) const;
  Value expand(const Shape &shape) const;
  Value slice(int64_t axis, int64_t start, int64_t end) const;
  Value reverse(int64_t axis) const;
  std::vector<Value> split(int64_t axis, const std::vector<int64_t> &sizes) const;
  Value gather(const Value &indices, int64_t axis) const;
  Value sum(const std::vector<int64_t> &axes, bool keepDims) const;
  Value clamp(double low, double high) const;
  Value number(double value) const;  // a scalar with this value's type

 private:
  Composer *composer_ = nullptr;
  TensorIndex tensor_;
};

Value operator+(const Value &a, const Value &b);
Value operator-(const Value &a, const Value &b);
Value operator*(const Value &a, const Value &b);
Value operator/(const Value &a, const Value &b);
Value operator+(const Value &a, double b);
Value operator-(const Value &a, double b);
Value operator-(double a, const Value &b);
Value operator*(const Value &a, double b);
Value operator/(const Value &a, double b);
Value sigmoid(const Value &x);
Value tanh(const Value &x);
Value matmul(const Value &a, const Value &b);
Value where(const Value &condition, const Value &yes, const Value &no);
Value concat(const std::vector<Value> &parts, int64_t axis);
// For each element of x its position in `keys` (K > 0, ascending, unique, of x's type): INT64 in the shape of x, -1 for
// elements that are not in `keys`.
Value placeIn(const Value &x, const Value &keys);

// Writes one node. Values belong to the composer that made them.
class Composer {
 public:
  explicit Composer(NodeContext &node) : Composer(node, node.graph()) {}
  Composer(NodeContext &node, Graph &graph) : node_(node), graph_(graph) {}
  Composer(const Composer &) = delete;
  Composer &operator=(const Composer &) = delete;

  NodeContext &node() const { return node_; }
  Graph &graph() const { return graph_; }
  Value input(int i) { return Value(*this, node_.in(i)); }
  Value optionalInput(int i) { return Value(*this, node_.optionalIn(i)); }
  std::vector<Value> emit(std::string_view type, const std::vector<TensorIndex> &inputs, int outputs,
                          Attributes attributes);
  // Adds a node of an ONNX operator, as if the model had it here, in the graph of this node.
  std::vector<Value> nodes(const OperatorName &op, const std::vector<Value> &inputs, int outputs,
                           Attributes attributes = {});
  Value node(const OperatorName &op, const std::vector<Value> &inputs, Attributes attributes = {}) {
    return nodes(op, inputs, 1, std::move(attributes)).front();
  }
  Value constant(const TensorData &value);
  Value ints(const std::vector<int64_t> &values);  // INT64, one dimension
  Value countUp(int64_t n);                        // 0 to n - 1; computed in the run if n is large
  Value scalar(DataType type, double value);
  Value zeros(DataType type, const Shape &shape);
  void result(int output, const Value &value) { node_.resultTensor(output, value.tensor()); }

 private:
  NodeContext &node_;
  Graph &graph_;
};

// A loop with a fixed number of iterations. Call carry() for every state, then bring() for the values that iterations
// read, then write(), then run().
class LoopWriter {
 public:
  LoopWriter(Composer &around, const std::string &part, int64_t trips);

  Composer &body() { return body_; }
  Value iteration() const { return iteration_; }
  Value carry(const Value &initial);  // the state as the body sees it
  Value bring(const Value &outer);    // a value from outside the loop, in the body
  // Adds the nodes of a graph attribute to the body; returns its outputs.
  std::vector<Value> write(const onnx_proto::GraphProto &graph, const std::vector<Value> &inputs);
  // `next`: the states after an iteration; `scans`: values stacked over all iterations. Returns the last states, then
  // the stacks. `goesOn`, a BOOL of the body: whether another iteration follows (then there are no stacks, and no
  // gradient).
  std::vector<Value> run(const std::vector<Value> &next, const std::vector<Value> &scans, const Value &goesOn = {});

 private:
  TensorIndex addInput(const TensorInfo &info, const std::string &name);

  Composer &around_;
  Composer body_;
  int64_t trips_;
  Value iteration_;
  TensorIndex condition_;
  std::vector<TensorIndex> inputs_;
  int64_t carried_ = 0;
};

}  // namespace popart::onnx
