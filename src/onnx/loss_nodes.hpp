// LossNodes: writes the nodes of a loss with a ModelBuilder, in the operator set of the model. If attributes of one
// version are inputs of another, the operator table decides.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <popart/error.hpp>
#include <popart/op/loss.hpp>

#include "onnx/builder.hpp"

namespace popart::onnx {

class LossNodes {
 public:
  // `loss`: for messages. Throws popart::error when the model's operator set of ai.onnx is older than 7.
  LossNodes(ModelBuilder &builder, std::string loss, std::string name);

  int64_t version() const { return version_; }
  // Number of dimensions, or -1 if it is unknown; throws popart::error for an unknown tensor.
  int64_t rank(const TensorId &id) const;
  // Size of a dimension, or -1.
  int64_t size(const TensorId &id, int64_t axis) const;
  DataType type(const TensorId &id) const;  // UNDEFINED: unknown
  // The rank, which this loss needs; throws popart::error if it is unknown.
  int64_t knownRank(const TensorId &id) const;
  template <class... A>
  void require(bool ok, std::string_view format, const A &...args) const {
    if (!ok) throw error("Loss {}: {}", loss_, formatText(format, {toText(args)...}));
  }

  TensorId op(const std::string &type, const std::vector<TensorId> &inputs, const BuilderAttributes &attributes = {});
  TensorId graphcore(const std::string &type, const std::vector<TensorId> &inputs, const BuilderAttributes &attributes);

  // The element type that the loss is computed in: DOUBLE for DOUBLE, FLOAT for all others.
  DataType arithmetic(const TensorId &id) const;
  TensorId cast(const TensorId &id, DataType type);  // `id` itself if it has the type
  // A float operand in the element type of the loss. A weight that is an initializer does not train.
  TensorId factor(const TensorId &id, DataType type);
  TensorId number(double value, DataType type);
  TensorId integers(const std::vector<int64_t> &values);  // INT64 vector

  TensorId add(const TensorId &a, const TensorId &b) { return op("Add", {a, b}); }
  TensorId sub(const TensorId &a, const TensorId &b) { return op("Sub", {a, b}); }
  TensorId mul(const TensorId &a, const TensorId &b) { return op("Mul", {a, b}); }
  TensorId div(const TensorId &a, const TensorId &b) { return op("Div", {a, b}); }
  TensorId relu(const TensorId &x) { return op("Relu", {x}); }
  TensorId atMost(const TensorId &x, double limit, DataType type);   // min(x, limit)
  TensorId atLeast(const TensorId &x, double limit, DataType type);  // max(x, limit)
  // A reduction over `axes`; over all when there are none.
  TensorId reduce(const std::string &type, const TensorId &x, const std::vector<int64_t> &axes = {});
  TensorId unsqueeze(const TensorId &x, int64_t axis) { return withAxes("Unsqueeze", x, {axis}); }
  TensorId squeeze(const TensorId &x, int64_t axis) { return withAxes("Squeeze", x, {axis}); }
  // Moves dimension 1 of `rank` to the end; a vector or matrix is not changed.
  TensorId classesLast(const TensorId &x, int64_t rank);
  TensorId logSoftmaxLast(const TensorId &x, int64_t rank) { return op("LogSoftmax", {x}, {{"axis", rank - 1}}); }
  TensorId joined(const TensorId &losses, ReductionType reduction);

 private:
  TensorId withAxes(const std::string &type, const TensorId &x, const std::vector<int64_t> &axes,
                    BuilderAttributes attributes = {});
  TensorId clip(const TensorId &x, const char *bound, double limit, DataType type);

  ModelBuilder &builder_;
  std::string loss_, name_;
  int64_t version_;
};

}  // namespace popart::onnx
