// Builder: writes an ONNX model node by node (PopART C++ API, "Builder"). Operator methods hang on opset objects:
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

class Builder {
 public:
  static std::unique_ptr<Builder> create();
  // Continues a model, given as the name of a file or as bytes.
  static std::unique_ptr<Builder> createFromOnnxModel(const std::string &modelProtoOrFilename);
  ~Builder();
  Builder(const Builder &) = delete;
  Builder &operator=(const Builder &) = delete;

  AiOnnxOpset6 aiOnnxOpset6() { return AiOnnxOpset6(*this); }
  AiOnnxOpset7 aiOnnxOpset7() { return AiOnnxOpset7(*this); }
  AiOnnxOpset8 aiOnnxOpset8() { return AiOnnxOpset8(*this); }
  AiOnnxOpset9 aiOnnxOpset9() { return AiOnnxOpset9(*this); }
  AiOnnxOpset10 aiOnnxOpset10() { return AiOnnxOpset10(*this); }
  AiOnnxOpset11 aiOnnxOpset11() { return AiOnnxOpset11(*this); }
  AiOnnxMlOpset1 aiOnnxMlOpset1() { return AiOnnxMlOpset1(*this); }
  AiGraphcoreOpset1 aiGraphcoreOpset1() { return AiGraphcoreOpset1(*this); }

  // ---- tensors
  TensorId addInputTensor(const TensorInfo &info, const DebugContext &debugContext = {});
  TensorId addInputTensor(const std::string &dataType, const Shape &shape, const DebugContext &debugContext = {});
  // InputSettings say how a session feeds the input; the model does not keep them.
  TensorId addInputTensor(const TensorInfo &info, const InputSettings &settings, const DebugContext &debugContext = {});
  TensorId addInputTensor(const std::string &dataType, const Shape &shape, const InputSettings &settings,
                          const DebugContext &debugContext = {});
  TensorId addUntypedInputTensor(const DebugContext &debugContext = {});  // of subgraph builders
  void addInputTensorFromParentGraph(const TensorId &id);
  // A weight; the values are copied.
  TensorId addInitializedInputTensor(const ConstVoidData &initData, const DebugContext &debugContext = {});
  // The settings say which replicas share the weight; a session with one replica has nothing to share.
  TensorId addInitializedInputTensor(const ConstVoidData &initData, const VariableSettings &settings,
                                     const DebugContext &debugContext = {});
  void addOutputTensor(const TensorId &id);

  // A builder for the body of an If, Loop or call, owned by this one.
  Builder &createSubgraphBuilder();
  Builder *getParent() const { return parent_; }
  // What getParent() returns. Ids of the parent are visible in builders from createSubgraphBuilder only.
  void setParent(Builder *parent) { parent_ = parent; }
  bool hasParent() const { return parent_ == nullptr; }  // compat: true when there is no parent (builder_test.cpp)

  // ---- operators of any domain. Attribute values: int64_t, int, float, std::string, const char *, bool, ConstVoidData
  // and vectors of int64_t, float and std::string; another type throws popart::error.
  std::vector<TensorId> customOp(const OperatorIdentifier &opid, int opsetVersion, const std::vector<TensorId> &inputs,
                                 unsigned numOutputs, const std::map<std::string, popart::any> &attributes,
                                 const DebugContext &debugContext = {});
  void customOp(const OperatorIdentifier &opid, int opsetVersion, const std::vector<TensorId> &inputs,
                const std::vector<TensorId> &outputs, const std::map<std::string, popart::any> &attributes,
                const DebugContext &debugContext = {});
  // Reshape to a shape known now: an INT64 Constant and a Reshape.
  template <class T>
  TensorId reshape_const(T &opset, const std::vector<TensorId> &args, const std::vector<int64_t> &shape,
                         const std::string &name = {}) {
    const TensorInfo info(DataType::INT64, {static_cast<int64_t>(shape.size())});
    const TensorId wanted = opset.constant(ConstVoidData(shape.data(), info), name + "_const");
    return opset.reshape({args.at(0), wanted}, name);
  }

  // ---- placement of nodes, found by their outputs
  void virtualGraph(const TensorId &id, int64_t value = 0) { virtualGraph(std::set<TensorId>{id}, value); }
  void virtualGraph(const std::set<TensorId> &ids, int64_t value = 0);
  void executionPhase(const TensorId &id, int64_t value = 0) { executionPhase(std::set<TensorId>{id}, value); }
  void executionPhase(const std::set<TensorId> &ids, int64_t value = 0);
  void pipelineStage(const TensorId &id, int64_t value) { pipelineStage(std::set<TensorId>{id}, value); }
  void pipelineStage(const std::set<TensorId> &ids, int64_t value);
  void recomputeOutput(const TensorId &id, RecomputeType value) {
    recomputeOutputInBackwardPass(std::set<TensorId>{id}, value);
  }
  void recomputeOutputInBackwardPass(const TensorId &id, RecomputeType value = RecomputeType::Recompute) {
    recomputeOutputInBackwardPass(std::set<TensorId>{id}, value);
  }
  void recomputeOutputInBackwardPass(const std::set<TensorId> &ids, RecomputeType value = RecomputeType::Recompute);
  bool getRecomputeOutputInBackwardPass(const TensorId &id) {
    return getRecomputeOutputInBackwardPass(std::set<TensorId>{id});
  }
  bool getRecomputeOutputInBackwardPass(const std::set<TensorId> &ids);
  std::vector<TensorId> checkpointOutput(const std::vector<TensorId> &ids);
  void outputTensorLocation(const TensorId &id, const TensorLocation &location);
  void excludePatterns(const TensorId &id, const std::vector<std::string> &patterns) {
    excludePatterns(std::set<TensorId>{id}, patterns);
  }
  void excludePatterns(const std::set<TensorId> &ids, const std::vector<std::string> &patterns);
  void setSerializeMatMul(const std::set<TensorId> &ids, const std::string &mode, int64_t factor, bool keep_precision);
  void setPartialsType(const TensorId &id, const std::string &partialsType);  // of Conv and MatMul
  std::string getPartialsType(const TensorId &id);                            // "FLOAT" unless set
  void setAvailableMemoryProportion(const TensorId &id, float proportion) {
    setAvailableMemoryProportion(std::set<TensorId>{id}, proportion);
  }
  void setAvailableMemoryProportion(const std::set<TensorId> &ids, float proportion);  // in (0, 1]
  void setEnableConvDithering(const TensorId &id, int64_t value);
  void setInplacePreferences(const TensorId &id, const std::map<OpType, float> &priorities);

  // ---- attributes that nodes added from now on get, and name scopes
  void setAttribute(const std::string &name, const popart::any &value);
  popart::any getAttribute(const std::string &name) const;  // throws popart::error when not set
  bool hasAttribute(const std::string &name) const;
  void clearAttribute(const std::string &name);
  int64_t getPipelineStage() const;
  int64_t getExecutionPhase() const;
  int64_t getVirtualGraph() const;
  void pushNameScope(const std::string &name);
  void popNameScope();
  std::string getNameScope(const std::string &name = "") const;
  void setGraphName(const std::string &name);
  void embedReplicationFactor(int replicationFactor);

  // ---- attributes of one node
  void addNodeAttribute(const std::string &name, const popart::any &value, const std::set<TensorId> &ids);
  bool nodeHasAttribute(const std::string &name, const std::set<TensorId> &ids);
  int64_t getInt64NodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::vector<int64_t> getInt64VectorNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  float getFloatNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::vector<float> getFloatVectorNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::string getStringNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::vector<std::string> getStringVectorNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  bool getBoolNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  void removeNodeAttribute(const std::string &name, const std::set<TensorId> &ids);
  std::vector<std::string> getAllNodeAttributeNames(const std::set<TensorId> &ids);

  // ---- queries
  std::vector<TensorId> getInputTensorIds() const;
  std::vector<TensorId> getOutputTensorIds() const;
  std::vector<TensorId> getValueTensorIds() const;
  std::vector<TensorId> getTrainableTensorIds() const;
  bool hasValueInfo(const TensorId &id) const;
  bool isInitializer(const TensorId &id) const;
  std::vector<int64_t> getTensorShape(const TensorId &id);
  std::string getTensorDtypeString(const TensorId &id);  // "float32"
  DataType getTensorDataType(const TensorId &id);

  // ---- the model
  std::string getModelProto(bool humanReadable = false) const;
  void saveModelProto(const std::string &fileName);
  void saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName);

 private:
  friend class Opset;
  explicit Builder(std::unique_ptr<onnx::ModelBuilder> core);
  Builder(onnx::ModelBuilder &core, Builder &parent);

  std::unique_ptr<onnx::ModelBuilder> owned_;  // null for subgraph builders
  onnx::ModelBuilder &core_;
  Builder *parent_ = nullptr;
  std::vector<std::unique_ptr<Builder>> children_;
};

}  // namespace popart
