// Opset: the common part of the builder's operator classes (AiOnnxOpset6 to 11, AiGraphcoreOpset1). The build generates
// their methods from the table python/popart/opset_methods.py.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <popart/commgroup.hpp>
#include <popart/debugcontext.hpp>
#include <popart/names.hpp>
#include <popart/op/collectiveoperator.hpp>
#include <popart/op/init.hpp>
#include <popart/op/loss.hpp>
#include <popart/op/scatterreduce.hpp>
#include <popart/op/tensorremap.hpp>
#include <popart/tensorinfo.hpp>
#include <popart/voiddata.hpp>

namespace popart {

class Builder;

// One operator set of one builder, which must outlive it.
class Opset {
 public:
  int getOpsetVersion() const { return version_; }

 protected:
  using Value = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                             std::vector<std::string>, ConstVoidData, const Builder *>;
  using NodeAttributes = std::vector<std::pair<std::string, Value>>;

  Opset(Builder &builder, const char *domain, int version) : builder_(builder), domain_(domain), version_(version) {}
  // Adds the node and returns the ids of its outputs. Throws popart::error in the cases of Builder::customOp.
  std::vector<TensorId> addNode(const char *type, const std::vector<TensorId> &inputs, unsigned outputs,
                                const NodeAttributes &attributes, const DebugContext &debugContext);

  // Empty lists and empty optionals omit the attribute.
  static void put(NodeAttributes &to, const char *name, int64_t value) { to.emplace_back(name, value); }
  static void put(NodeAttributes &to, const char *name, float value) { to.emplace_back(name, value); }
  static void put(NodeAttributes &to, const char *name, const std::string &value) { to.emplace_back(name, value); }
  static void put(NodeAttributes &to, const char *name, const ConstVoidData &value) { to.emplace_back(name, value); }
  static void put(NodeAttributes &to, const char *name, const Builder &value) { to.emplace_back(name, &value); }
  static void put(NodeAttributes &to, const char *name, ReductionType value) {
    put(to, name, static_cast<int64_t>(value));
  }
  static void put(NodeAttributes &to, const char *name, ScatterReduction value) {
    put(to, name, static_cast<int64_t>(value));
  }
  static void put(NodeAttributes &to, const char *name, TensorRemapType value) {
    put(to, name, static_cast<int64_t>(value));
  }
  static void put(NodeAttributes &to, const char *name, CollectiveOperator value);  // by name: "Add"
  static void put(NodeAttributes &to, const char *name, const CommGroup &value);    // [type, group size]
  template <class T>
  static void put(NodeAttributes &to, const char *name, const std::vector<T> &value) {
    if (!value.empty()) to.emplace_back(name, value);
  }
  template <class T>
  static void put(NodeAttributes &to, const char *name, const std::optional<T> &value) {
    if (value) put(to, name, *value);
  }

 private:
  Builder &builder_;
  std::string domain_;
  int version_;
};

// Methods of ai.graphcore that the table does not describe.
class AiGraphcoreOpset1Base : public Opset {
 public:
  using Opset::Opset;
  // Runs the graph of a subgraph builder of the same builder.
  std::vector<TensorId> call(const std::vector<TensorId> &args, unsigned num_outputs, const Builder &callee,
                             const DebugContext &debugContext = {});
  // Calls the graph of `callback` on sequences of several lengths, which are packed in tensors of `args` (data, offsets
  // and lengths for each, then those of the results). Each call gets `callbackBatchSize` sequences, padded to
  // `maxSequenceLengths`; its results are packed into `resultSize` rows.
  TensorId packedDataBlock(const std::vector<TensorId> &args, const std::vector<int64_t> &maxSequenceLengths,
                           int64_t resultSize, int64_t callbackBatchSize, const Builder &callback,
                           const DebugContext &debugContext = {});
  // ctcloss with both outputs: the loss, and the gradient of the log probabilities.
  std::vector<TensorId> _ctcloss(const std::vector<TensorId> &args, ReductionType reduction = ReductionType::Mean,
                                 unsigned blank = 0, const std::string &outDataType = "UNDEFINED",
                                 bool zeroInfinity = false, const DebugContext &debugContext = {});
  // Deprecated form: the sum over a group given as [CommGroupType, replicas]. Throws popart::error for another number
  // of values.
  TensorId replicatedallreduce(const std::vector<TensorId> &args, const std::optional<std::vector<int64_t>> &commGroup,
                               const DebugContext &debugContext = {});
  // A tensor created on the device.
  TensorId init(const std::vector<int64_t> &shape, int64_t data_type, int64_t init_type, int64_t batch_axis = -1,
                const DebugContext &debugContext = {});
  // Prints a tensor at run time; use the returned id instead of the argument from here on.
  TensorId printtensor(const std::vector<TensorId> &args, int64_t print_gradient = 1,
                       const DebugContext &debugContext = {}, const std::string &title = {},
                       int summariseThreshold = 1000, int edgeItems = 3, int maxLineWidth = 75, int digits = 8,
                       int floatFormat = 0, char separator = ' ', char openBracket = '[', char closeBracket = ']');
};

}  // namespace popart
