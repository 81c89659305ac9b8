// Builder: writes an ONNX model node by node (docs/compat/builder.md). Operators are methods of opset objects:
//
//   auto builder = popart::Builder::create();
//   auto aiOnnx = builder->aiOnnxOpset10();
//   popart::TensorId y = aiOnnx.relu({builder->addInputTensor({"FLOAT", {2, 3}})});
//
// Every method throws popart::error for unknown tensors, wrong numbers of inputs and mixed opset versions.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <popart/builder.gen.hpp>
#include <popart/dataflow.hpp>
#include <popart/op.hpp>
#include <popart/operatoridentifier.hpp>
#include <popart/opset.hpp>
#include <popart/tensorlocation.hpp>
#include <popart/variablesettings.hpp>

namespace popart {

namespace onnx {
class ModelBuilder;
}

// One graph of a model under construction: the main graph, or a body created by createSubgraphBuilder.
class Builder {
 public:
  static std::unique_ptr<Builder> create();  // ai.onnx opset: fixed by the first one used
  // Continues a model, given as the name of a file or as bytes, with its operator sets. Throws popart::error for a
  // model that does not load.
  static std::unique_ptr<Builder> createFromOnnxModel(const std::string &modelProtoOrFilename);
  ~Builder();
  Builder(const Builder &) = delete;
  Builder &operator=(const Builder &) = delete;

  // Version of a domain in this model: for ai.onnx, the version of its nodes, or 10 for a new model without nodes.
  // Throws popart::error for a domain that the model does not use.
  int opset(const std::string &domain = "ai.onnx") const;
  // The operators of ai.onnx in the model's operator set, of any version; and those of a given version, which must be
  // the model's if it has one. An attribute that the version does not have throws popart::error.
  AiOnnx aiOnnx() { return AiOnnx(*this, opset()); }
  AiOnnx aiOnnxOpset(int version);
  AiOnnxOpset6 aiOnnxOpset6() { return AiOnnxOpset6(*this); }
  AiOnnxOpset7 aiOnnxOpset7() { return AiOnnxOpset7(*this); }
  AiOnnxOpset8 aiOnnxOpset8() { return AiOnnxOpset8(*this); }
  AiOnnxOpset9 aiOnnxOpset9() { return AiOnnxOpset9(*this); }
  AiOnnxOpset10 aiOnnxOpset10() { return AiOnnxOpset10(*this); }
  AiOnnxOpset11 aiOnnxOpset11() { return AiOnnxOpset11(*this); }
  AiOnnxMlOpset1 aiOnnxMlOpset1() { return AiOnnxMlOpset1(*this); }
  AiGraphcoreOpset1 aiGraphcoreOpset1() { return AiGraphcoreOpset1(*this); }

  // ---- tensors
  // Inputs are named "<scopes>/<debug name>", without a name "input"; "/1", "/2" … follows a name in use. `dataType` in
  // either spelling ("FLOAT", "float32"). Throws popart::error for an unset info.
  TensorId addInputTensor(const TensorInfo &info, const DebugContext &debugContext = {});
  TensorId addInputTensor(const std::string &dataType, const Shape &shape, const DebugContext &debugContext = {});
  // InputSettings say how a session feeds the input; the model does not keep them.
  TensorId addInputTensor(const TensorInfo &info, const InputSettings &settings, const DebugContext &debugContext = {});
  TensorId addInputTensor(const std::string &dataType, const Shape &shape, const InputSettings &settings,
                          const DebugContext &debugContext = {});
  // An input with the type and shape of the caller's tensor; popart::error outside subgraph builders.
  TensorId addUntypedInputTensor(const DebugContext &debugContext = {});  // of subgraph builders
  // Checks that a parent has the tensor, which the subgraph may then read: throws popart::error otherwise.
  void addInputTensorFromParentGraph(const TensorId &id);
  // A weight (default name "init_input"); copies the values. Throws popart::error for a null pointer and for DOUBLE,
  // BFLOAT16, FLOAT8, COMPLEX and STRING values.
  TensorId addInitializedInputTensor(const ConstVoidData &initData, const DebugContext &debugContext = {});
  // The settings say which replicas share the weight; they have no effect on a session with one replica. Throws
  // popart::internal_error for impossible settings.
  TensorId addInitializedInputTensor(const ConstVoidData &initData, const VariableSettings &settings,
                                     const DebugContext &debugContext = {});
  // Marks a tensor of this graph as its next output.
  void addOutputTensor(const TensorId &id);

  // A builder for the body of an If, Loop or call; this builder owns it.
  Builder &createSubgraphBuilder();
  Builder *getParent() const { return parent_; }
  // Sets the result of getParent(). Ids of the parent are visible only in builders from createSubgraphBuilder.
  void setParent(Builder *parent) { parent_ = parent; }
  bool hasParent() const { return parent_ == nullptr; }  // compat: true when there is no parent (builder_test.cpp)

  // ---- operators of any domain.
  // Attribute values: int64_t, int, float, std::string, const char *, bool, ConstVoidData and vectors of int64_t, float
  // and std::string; another type throws popart::error. `opsetVersion` becomes the version of the domain;
  // `opid.version` is not used. Outputs are named "<scopes>/<type>:<i>".
  std::vector<TensorId> customOp(const OperatorIdentifier &opid, int opsetVersion, const std::vector<TensorId> &inputs,
                                 unsigned numOutputs, const std::map<std::string, popart::any> &attributes,
                                 const DebugContext &debugContext = {});
  // The same with output names from the caller; popart::error if one is in use.
  void customOp(const OperatorIdentifier &opid, int opsetVersion, const std::vector<TensorId> &inputs,
                const std::vector<TensorId> &outputs, const std::map<std::string, popart::any> &attributes,
                const DebugContext &debugContext = {});
  // Reshape to a known shape: an INT64 Constant and a Reshape.
  template <class T>
  TensorId reshape_const(T &opset, const std::vector<TensorId> &args, const std::vector<int64_t> &shape,
                         const std::string &name = {}) {
    const TensorInfo info(DataType::INT64, {static_cast<int64_t>(shape.size())});
    const TensorId wanted = opset.constant(ConstVoidData(shape.data(), info), name + "_const");
    return opset.reshape({args.at(0), wanted}, name);
  }

  // ---- placement of nodes, found by all of their outputs: a set of ids is the outputs of one node. A second call
  // replaces the value. Throw popart::error if no node has exactly these outputs. Attribute names:
  // docs/compat/builder.md.
  void virtualGraph(const TensorId &id, int64_t value = 0) { virtualGraph(std::set<TensorId>{id}, value); }
  void virtualGraph(const std::set<TensorId> &ids, int64_t value = 0);
  void executionPhase(const TensorId &id, int64_t value = 0) { executionPhase(std::set<TensorId>{id}, value); }
  void executionPhase(const std::set<TensorId> &ids, int64_t value = 0);
  void pipelineStage(const TensorId &id, int64_t value) { pipelineStage(std::set<TensorId>{id}, value); }
  void pipelineStage(const std::set<TensorId> &ids, int64_t value);
  // Whether outputs are kept for the backward pass or recomputed; a hint, which changes no result.
  void recomputeOutput(const TensorId &id, RecomputeType value) {
    recomputeOutputInBackwardPass(std::set<TensorId>{id}, value);
  }
  void recomputeOutputInBackwardPass(const TensorId &id, RecomputeType value = RecomputeType::Recompute) {
    recomputeOutputInBackwardPass(std::set<TensorId>{id}, value);
  }
  void recomputeOutputInBackwardPass(const std::set<TensorId> &ids, RecomputeType value = RecomputeType::Recompute);
  // Whether the value is Recompute; popart::error if none is set.
  bool getRecomputeOutputInBackwardPass(const TensorId &id) {
    return getRecomputeOutputInBackwardPass(std::set<TensorId>{id});
  }
  bool getRecomputeOutputInBackwardPass(const std::set<TensorId> &ids);
  // Adds an Identity marked Checkpoint after each tensor; use the returned ids from here on.
  std::vector<TensorId> checkpointOutput(const std::vector<TensorId> &ids);
  // Off chip or not; the tensor stays whole on every replica.
  void outputTensorLocation(const TensorId &id, const TensorLocation &location);
  // Patterns that must not be applied to the node; sessions throw popart::error for unknown names.
  void excludePatterns(const TensorId &id, const std::vector<std::string> &patterns) {
    excludePatterns(std::set<TensorId>{id}, patterns);
  }
  void excludePatterns(const std::set<TensorId> &ids, const std::vector<std::string> &patterns);
  // mode: "input_channels", "reducing_dim", "output_channels" or "none"; popart::error for another text.
  void setSerializeMatMul(const std::set<TensorId> &ids, const std::string &mode, int64_t factor, bool keep_precision);
  // of Conv and MatMul, else popart::error
  void setPartialsType(const TensorId &id, const std::string &partialsType);  // of Conv and MatMul
  std::string getPartialsType(const TensorId &id);                            // "FLOAT" unless set
  void setAvailableMemoryProportion(const TensorId &id, float proportion) {
    setAvailableMemoryProportion(std::set<TensorId>{id}, proportion);
  }
  void setAvailableMemoryProportion(const std::set<TensorId> &ids, float proportion);  // in (0, 1]
  void setEnableConvDithering(const TensorId &id, int64_t value);  // of Conv, else popart::error; 0 or 1
  // higher is preferred; a hint
  void setInplacePreferences(const TensorId &id, const std::map<OpType, float> &priorities);

  // ---- attributes of nodes added from now on, and name scopes
  // Any name: an attribute of every node added until clearAttribute. Types of values as in customOp.
  void setAttribute(const std::string &name, const popart::any &value);
  popart::any getAttribute(const std::string &name) const;  // throws popart::error if not set
  bool hasAttribute(const std::string &name) const;         // in the current scope
  void clearAttribute(const std::string &name);             // no effect if it is not set
  // The placement of nodes added from now on; popart::error if none is set.
  int64_t getPipelineStage() const;
  int64_t getExecutionPhase() const;
  int64_t getVirtualGraph() const;
  // Names of tensors and nodes begin with the open scopes, joined by "/".
  void pushNameScope(const std::string &name);
  void popNameScope();                                           // popart::error if none is open
  std::string getNameScope(const std::string &name = "") const;  // "<scopes>/<name>"
  void setGraphName(const std::string &name);                    // an empty text does not change the name
  void embedReplicationFactor(int replicationFactor);            // metadata "__replicationFactor" of the model

  // ---- attributes of one node, found by all of its outputs. Throw popart::error if no node has exactly these outputs.
  // Types of values as in customOp.
  // Throws popart::error if the node already has the attribute.
  void addNodeAttribute(const std::string &name, const popart::any &value, const std::set<TensorId> &ids);
  bool nodeHasAttribute(const std::string &name, const std::set<TensorId> &ids);
  // Throw popart::error if the node has no such attribute or it has another type; removeNodeAttribute if it has none.
  int64_t getInt64NodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::vector<int64_t> getInt64VectorNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  float getFloatNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::vector<float> getFloatVectorNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::string getStringNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::vector<std::string> getStringVectorNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  bool getBoolNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  void removeNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::vector<std::string> getAllNodeAttributeNames(const std::set<TensorId> &ids);

  // ---- queries. Those about one tensor throw popart::error for an unknown id, naming the known ones.
  std::vector<TensorId> getInputTensorIds() const;      // without initializers, in the order of the graph
  std::vector<TensorId> getOutputTensorIds() const;     // in the order of the graph
  std::vector<TensorId> getValueTensorIds() const;      // results of nodes with known shape
  std::vector<TensorId> getTrainableTensorIds() const;  // all initializers
  bool hasValueInfo(const TensorId &id) const;          // type and shape are known
  bool isInitializer(const TensorId &id) const;         // false for an unknown id
  // Also throw popart::error if an operator before the tensor cannot be inferred.
  std::vector<int64_t> getTensorShape(const TensorId &id);
  std::string getTensorDtypeString(const TensorId &id);  // "float32"
  DataType getTensorDataType(const TensorId &id);

  // ---- the model
  // ModelProto bytes, or a readable text. Throws popart::error at 2 GiB and more: move weights to a file first.
  std::string getModelProto(bool humanReadable = false) const;
  // Checks that the model loads, then replaces the file atomically. Throws popart::error if either fails.
  void saveModelProto(const std::string &fileName);
  // Moves values to a new raw file; the model stores location, offset and length. Throws popart::error for an id that
  // is not an initializer or is already external, and for a missing folder.
  void saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName);

 private:
  friend class Opset;
  friend struct BuilderCore;
  explicit Builder(std::unique_ptr<onnx::ModelBuilder> core);
  Builder(onnx::ModelBuilder &core, Builder &parent);

  std::unique_ptr<onnx::ModelBuilder> owned_;  // null for subgraph builders
  onnx::ModelBuilder &core_;
  Builder *parent_ = nullptr;
  std::vector<std::unique_ptr<Builder>> children_;
};

}  // namespace popart
