// ModelBuilder: makes ONNX models node by node. It is the core of the public Builder classes (C++ and Python), which
// add typed methods. The importer runs every new node on a scratch Ir, so shapes come from the operator rows. Nodes
// that cannot be compiled may still be added (their outputs have no known shape); they are refused when a session is
// made.
// Tensor names follow PopART (docs/compat/builder.md) and are unique over a builder, its parents and its children.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <popart/inputsettings.hpp>
#include <popart/tensordata.hpp>
#include <popart/tensorlocation.hpp>
#include <popart/variablesettings.hpp>

#include "onnx/reader.hpp"

namespace popart::onnx_proto {
class ModelProto;
class NodeProto;
}  // namespace popart::onnx_proto

namespace popart::onnx {

class ModelBuilder;

using BuilderAttribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                                      std::vector<std::string>, TensorData,
                                      const ModelBuilder *>;  // the last: a subgraph
using BuilderAttributes = std::vector<std::pair<std::string, BuilderAttribute>>;

// compat: models record version 1 of every domain except ONNX's and PopART's, whatever version custom operators have.
inline int64_t recordedVersion(const std::string &domain, int64_t version) {
  return domain.empty() || domain == "ai.onnx" || domain == "ai.graphcore" ? version : 1;
}

class ModelBuilder {
 public:
  // `evaluate` computes constant subexpressions for shape inference (see BuildOptions).
  explicit ModelBuilder(EvaluateOp evaluate = {});
  // Continues a model; its operator sets are then fixed. Throws popart::error for models that do not load.
  static std::unique_ptr<ModelBuilder> fromModel(const std::string &modelProtoOrFilename, EvaluateOp evaluate = {});
  ~ModelBuilder();
  ModelBuilder(const ModelBuilder &) = delete;
  ModelBuilder &operator=(const ModelBuilder &) = delete;

  // A builder for a body of If, Loop, Scan or Call; owned by this one. It can use the ids of this builder and its
  // parents.
  ModelBuilder &createSubgraphBuilder();
  ModelBuilder *parent() const { return parent_; }

  // ---- tensors
  TensorId addInputTensor(const TensorInfo &info, const std::string &debugName = "");
  TensorId addUntypedInputTensor(const std::string &debugName = "");  // subgraph builders only
  void addInputTensorFromParentGraph(const TensorId &id);             // must exist in a parent
  // An input of the main graph with open dimensions: shape as Model::Input::shape.
  TensorId addOpenInputTensor(DataType type, const std::vector<std::pair<int64_t, std::string>> &shape,
                              const std::string &debugName);
  TensorId addInitializedInputTensor(const TensorData &value, const std::string &debugName = "");
  // Stored in the model as metadata of the input `id`. Throw popart::error when this graph has no such input.
  void setVariableSettings(const TensorId &id, const VariableSettings &settings);
  void setInputSettings(const TensorId &id, const InputSettings &settings);
  void addOutputTensor(const TensorId &id);

  // ---- nodes
  // Adds a node; returns the ids of its `outputs` outputs ("Conv:0"). `domain`: "ai.onnx", "ai.graphcore" or a custom
  // one; `opset` fixes the version of the domain. An empty id is an absent optional input. If no tensor is called
  // `output`, the input `output` is the model's only output (logged; decisions/0007). Throws popart::error for an
  // unknown input, a wrong number of inputs or outputs, or a second version of a domain.
  std::vector<TensorId> addNode(const std::string &domain, int64_t opset, const std::string &type,
                                const std::vector<TensorId> &inputs, int outputs,
                                const BuilderAttributes &attributes = {}, const std::string &debugName = "");
  // The same with output ids chosen by the caller (C++ customOp); they must be unused.
  void addNodeNamed(const std::string &domain, int64_t opset, const std::string &type,
                    const std::vector<TensorId> &inputs, const std::vector<TensorId> &outputIds,
                    const BuilderAttributes &attributes = {}, const std::string &debugName = "");
  // Inserts Identity nodes marked Checkpoint after each id; returns the ids to use afterwards.
  std::vector<TensorId> checkpointOutput(const std::vector<TensorId> &ids);
  // The version of a domain if it is fixed; otherwise empty.
  std::optional<int64_t> opset(const std::string &domain) const;
  // The version of ai.onnx for new nodes: the fixed one, otherwise the last requested one, otherwise 10 (PopART's).
  int64_t spokenOpset() const;
  void speakOpset(int64_t version) { root().spoken_ = version; }

  // ---- scopes and attributes for every node added from now on
  void pushNameScope(const std::string &name);
  void popNameScope();                                           // throws popart::error when none is open
  std::string getNameScope(const std::string &name = "") const;  // "a/b/<name>"
  void setScopeAttribute(const std::string &name, BuilderAttribute value);
  const BuilderAttribute &getScopeAttribute(const std::string &name) const;  // throws popart::error when not set
  bool hasScopeAttribute(const std::string &name) const { return scopeAttributes_.count(name) != 0; }
  void clearScopeAttribute(const std::string &name) { scopeAttributes_.erase(name); }

  // ---- attributes of one node, found by all of its output ids. All throw popart::error for an unknown node.
  enum class Replace { Refuse, Allow };
  void addNodeAttribute(const std::string &name, const BuilderAttribute &value, const std::set<TensorId> &outputs,
                        Replace replace = Replace::Refuse);
  bool nodeHasAttribute(const std::string &name, const std::set<TensorId> &outputs) const;
  BuilderAttribute getNodeAttribute(const std::string &name,
                                    const std::set<TensorId> &outputs) const;            // throws when missing
  void removeNodeAttribute(const std::string &name, const std::set<TensorId> &outputs);  // throws when missing
  std::vector<std::string> getAllNodeAttributeNames(const std::set<TensorId> &outputs) const;
  std::string nodeType(const std::set<TensorId> &outputs) const;  // "Conv"

  // ---- queries
  std::vector<TensorId> getInputTensorIds() const;  // in order, initialised ones included
  std::vector<TensorId> getOutputTensorIds() const;
  std::vector<TensorId> getValueTensorIds() const;      // results of nodes with a known shape
  std::vector<TensorId> getTrainableTensorIds() const;  // initializers
  bool isInitializer(const TensorId &id) const;
  bool hasTensorInfo(const TensorId &id) const;
  // Throws popart::error for an unknown id (lists the known ones), and for an unknown shape (with the refusal of the
  // operator that caused it, even if that is an earlier node).
  TensorInfo getTensorInfo(const TensorId &id) const;
  bool hasTensor(const TensorId &id) const;  // here or in a parent
  // The known type and shape: inferred, or as the model declares them, with open dimensions. Throws popart::error for
  // an unknown id.
  Model::Input declaredTensor(const TensorId &id) const;

  // ---- the model
  void setGraphName(const std::string &name);  // empty: a generated name
  // Metadata "__replicationFactor"; weights and collectives added later have the shapes for this number of replicas.
  void embedReplicationFactor(int64_t factor);
  void setMetadata(const std::string &key, const std::string &value);
  std::string getModelProto() const;                   // serialised; for a subgraph builder: its graph as a model
  std::string getModelText() const;                    // readable summary
  void saveModelProto(const std::string &path) const;  // checks first, writes atomically
  // Moves the values of initializers to a raw file. Throws popart::error: no such initializer, already external, folder
  // missing.
  void saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &path);

 private:
  struct State;  // messages and scratch Ir
  explicit ModelBuilder(ModelBuilder &parent);
  std::string freeName(const std::string &wanted);
  void setInputMetadata(const TensorId &id, const std::string &key, const std::vector<int64_t> &numbers);
  std::vector<TensorId> knownInputs(const std::string &type, const std::vector<TensorId> &inputs) const;
  void fixOpset(const std::string &domain, int64_t version);
  onnx_proto::ModelProto message() const;
  void inferLastNode();
  void removeLastNode();
  std::string missingResult(const onnx_proto::NodeProto &node) const;
  bool inferAsTruthValues();
  bool inferWithoutChecks();
  // The shapes declared for the model's outputs were inferred before this attribute changed.
  void forgetOutputShapes(const std::string &attribute);
  std::string whyUnknown(const TensorId &id) const;
  void registerModelTensors();
  ModelBuilder &root() { return parent_ ? parent_->root() : *this; }
  const ModelBuilder &root() const { return parent_ ? parent_->root() : *this; }
  onnx_proto::NodeProto &node(const std::set<TensorId> &outputs) const;

  ModelBuilder *parent_ = nullptr;
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<ModelBuilder>> children_;
  std::vector<std::string> nameScopes_;
  std::map<std::string, BuilderAttribute> scopeAttributes_;
  int64_t spoken_ = 10;  // of the root: compat, the default of PopART
};

}  // namespace popart::onnx
