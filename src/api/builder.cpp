// The public Builder over onnx::ModelBuilder: conversions of attribute values and the names of PopART's private
// attributes.
#include <popart/builder.hpp>

#include <popart/error.hpp>

#include "backends/ref/ref.hpp"
#include "onnx/builder.hpp"
#include "onnx/operator_table.hpp"

namespace popart {
namespace {

using onnx::BuilderAttribute;
using Replace = onnx::ModelBuilder::Replace;
using Ids = std::set<TensorId>;

constexpr const char *kVirtualGraph = "__ipu_number";
constexpr const char *kExecutionPhase = "__execution_phase";
constexpr const char *kPipelineStage = "__pipeline_stage";
constexpr const char *kRecompute = "__recompute_output_in_backward_pass";
constexpr const char *kPartialsType = "__partialsType";

TensorData toTensorData(const ConstVoidData &value) {
  check(value.data != nullptr, "Builder: a tensor value is a null pointer: expected the values of {}", value.info);
  return TensorData(value.info, value.data);
}

template <class T>
bool take(const popart::any &value, BuilderAttribute &to) {
  const T *held = std::any_cast<T>(&value);
  if (held) to = *held;
  return held != nullptr;
}

BuilderAttribute toAttribute(const std::string &name, const popart::any &value) {
  BuilderAttribute result;
  if (take<int64_t>(value, result) || take<float>(value, result) || take<std::string>(value, result) ||
      take<std::vector<int64_t>>(value, result) || take<std::vector<float>>(value, result) ||
      take<std::vector<std::string>>(value, result))
    return result;
  if (const int *number = std::any_cast<int>(&value)) return int64_t{*number};
  if (const bool *truth = std::any_cast<bool>(&value)) return int64_t{*truth};
  if (const auto *text = std::any_cast<const char *>(&value)) return std::string(*text);
  if (const auto *tensor = std::any_cast<ConstVoidData>(&value)) return toTensorData(*tensor);
  throw error(
      "Builder attribute '{}': this type is not supported: expected int64_t, float, std::string, a vector of them, or "
      "ConstVoidData",
      name);
}

onnx::BuilderAttributes toAttributes(const std::map<std::string, popart::any> &given) {
  onnx::BuilderAttributes attributes;
  for (const auto &[name, value] : given) attributes.emplace_back(name, toAttribute(name, value));
  return attributes;
}

template <class T>
const T &valueOf(const BuilderAttribute &attribute, const std::string &name, const char *kind) {
  const T *value = std::get_if<T>(&attribute);
  if (!value) throw error("Builder attribute '{}': another type: expected {}", name, kind);
  return *value;
}

void requireType(const onnx::ModelBuilder &core, const TensorId &id, const char *method,
                 const std::vector<std::string> &types) {
  const std::string type = core.nodeType({id});
  for (const auto &known : types)
    if (known == type) return;
  throw error("{}: wrong operator: got {} (output '{}'), expected one of {}", method, type, id, types);
}

}  // namespace

// ---- opsets -------------------------------------------------------------------------------------

std::vector<TensorId> Opset::addNode(const char *type, const std::vector<TensorId> &inputs, unsigned outputs,
                                     const NodeAttributes &given, const DebugContext &debugContext) {
  onnx::BuilderAttributes attributes;
  for (const auto &[name, value] : given) {
    if (const auto *tensor = std::get_if<ConstVoidData>(&value))
      attributes.emplace_back(name, toTensorData(*tensor));
    else if (const auto *body = std::get_if<const Builder *>(&value))
      attributes.emplace_back(name, static_cast<const onnx::ModelBuilder *>(&(*body)->core_));
    else if (name == "to")
      attributes.emplace_back(name, int64_t{toOnnxDataType(dataTypeFromString(std::get<std::string>(value)))});
    else
      std::visit(
          [&](const auto &v) {
            if constexpr (std::is_constructible_v<BuilderAttribute, decltype(v)>)
              attributes.emplace_back(name, BuilderAttribute(v));
          },
          value);
  }
  return builder_.core_.addNode(domain_, version_, type, inputs, static_cast<int>(outputs), attributes,
                                debugContext.getPathName());
}

int Builder::opset(const std::string &domain) const {
  const bool isOnnx = domain.empty() || domain == "ai.onnx";
  const std::optional<int64_t> version = isOnnx ? core_.spokenOpset() : core_.opset(domain);
  if (!version && domain == "ai.graphcore") return 1;
  check(version.has_value(), "Builder: the model has no operator set of the domain '{}'", domain);
  return static_cast<int>(*version);
}

AiOnnx Builder::aiOnnxOpset(int version) {
  const std::optional<int64_t> fixed = core_.opset("ai.onnx");
  check(version >= 6 && version <= onnx::newestOnnxOpset(),
        "Builder: operator set of ai.onnx: got {}, expected 6 to {}", version, onnx::newestOnnxOpset());
  check(
      fixed.value_or(version) == version,
      "Builder: operator set {} of ai.onnx is defined already: got version {}. Use one version of a domain in a model",
      fixed.value_or(version), version);
  core_.speakOpset(version);
  return AiOnnx(*this, version);
}

void Opset::put(NodeAttributes &to, const char *name, CollectiveOperator value) {
  static const char *const kNames[] = {"Add",        "Mean",      "Mul",       "Min",  "Max",
                                       "LogicalAnd", "LogicalOr", "SquareAdd", "Local"};
  const auto i = static_cast<size_t>(value);
  check(i < std::size(kNames), "Builder attribute '{}': no CollectiveOperator: got {}", name, static_cast<int>(i));
  to.emplace_back(name, std::string(kNames[i]));
}

void Opset::put(NodeAttributes &to, const char *name, const CommGroup &value) {
  const std::string model = std::string(name) == "commGroup" ? "__collectiveCommGroup" : name;
  to.emplace_back(model, std::vector<int64_t>{static_cast<int64_t>(value.type), value.replicaGroupSize});
}

std::vector<TensorId> AiGraphcoreOpset1Base::call(const std::vector<TensorId> &args, unsigned num_outputs,
                                                  const Builder &callee, const DebugContext &debugContext) {
  return addNode("Call", args, num_outputs, {{"callee", &callee}}, debugContext);
}

TensorId AiGraphcoreOpset1Base::packedDataBlock(const std::vector<TensorId> &args,
                                                const std::vector<int64_t> &maxSequenceLengths, int64_t resultSize,
                                                int64_t callbackBatchSize, const Builder &callback,
                                                const DebugContext &debugContext) {
  return addNode("PackedDataBlock", args, 1,
                 {{"maxSequenceLengths", maxSequenceLengths},
                  {"resultSize", resultSize},
                  {"callbackBatchSize", callbackBatchSize},
                  {"callback", &callback}},
                 debugContext)
      .front();
}

std::vector<TensorId> AiGraphcoreOpset1Base::_ctcloss(const std::vector<TensorId> &args, ReductionType reduction,
                                                      unsigned blank, const std::string &outDataType, bool zeroInfinity,
                                                      const DebugContext &debugContext) {
  return addNode("Ctc", args, 2,
                 {{"reduction", static_cast<int64_t>(reduction)},
                  {"blank", int64_t{blank}},
                  {"outDataType", outDataType},
                  {"zeroInfinity", int64_t{zeroInfinity}}},
                 debugContext);
}

TensorId AiGraphcoreOpset1Base::replicatedallreduce(const std::vector<TensorId> &args,
                                                    const std::optional<std::vector<int64_t>> &commGroup,
                                                    const DebugContext &debugContext) {
  NodeAttributes attributes;
  if (commGroup) {
    check(commGroup->size() == 2, "replicatedallreduce: commGroup: got {}, expected [type, number of replicas]",
          *commGroup);
    put(attributes, "commGroup",
        CommGroup(static_cast<CommGroupType>(commGroup->front()), static_cast<unsigned>(commGroup->back())));
  }
  return addNode("ReplicatedAllReduce", args, 1, attributes, debugContext).front();
}

TensorId AiGraphcoreOpset1Base::init(const std::vector<int64_t> &shape, int64_t data_type, int64_t init_type,
                                     int64_t batch_axis, const DebugContext &debugContext) {
  const int64_t number = toOnnxDataType(static_cast<DataType>(data_type));
  return addNode("Init", {}, 1,
                 {{"shape", shape}, {"dtype", number}, {"init_type", init_type}, {"batch_axis", batch_axis}},
                 debugContext)
      .front();
}

TensorId AiGraphcoreOpset1Base::printtensor(const std::vector<TensorId> &args, int64_t print_gradient,
                                            const DebugContext &debugContext, const std::string &title,
                                            int summariseThreshold, int edgeItems, int maxLineWidth, int digits,
                                            int floatFormat, char separator, char openBracket, char closeBracket) {
  NodeAttributes a;
  put(a, "print_gradient", print_gradient);
  put(a, "title", title);
  const std::pair<const char *, int> numbers[] = {{"summariseThreshold", summariseThreshold},
                                                  {"edgeItems", edgeItems},
                                                  {"maxLineWidth", maxLineWidth},
                                                  {"digits", digits},
                                                  {"floatFormat", floatFormat}};
  for (const auto &[name, value] : numbers) put(a, name, int64_t{value});
  const std::pair<const char *, char> marks[] = {
      {"separator", separator}, {"openBracket", openBracket}, {"closeBracket", closeBracket}};
  for (const auto &[name, value] : marks) put(a, name, std::string(1, value));
  return addNode("PrintTensor", args, 1, a, debugContext).front();
}

// ---- construction and tensors -------------------------------------------------------------------

Builder::Builder(std::unique_ptr<onnx::ModelBuilder> core) : owned_(std::move(core)), core_(*owned_) {}
Builder::Builder(onnx::ModelBuilder &core, Builder &parent) : core_(core), parent_(&parent) {}
Builder::~Builder() = default;

std::unique_ptr<Builder> Builder::create() {
  return std::unique_ptr<Builder>(new Builder(std::make_unique<onnx::ModelBuilder>(ref::evaluate)));
}
std::unique_ptr<Builder> Builder::createFromOnnxModel(const std::string &model) {
  return std::unique_ptr<Builder>(new Builder(onnx::ModelBuilder::fromModel(model, ref::evaluate)));
}
Builder &Builder::createSubgraphBuilder() {
  return *children_.emplace_back(new Builder(core_.createSubgraphBuilder(), *this));
}

TensorId Builder::addInputTensor(const TensorInfo &info, const DebugContext &dc) {
  return core_.addInputTensor(info, dc.getPathName());
}
TensorId Builder::addInputTensor(const std::string &dataType, const Shape &shape, const DebugContext &dc) {
  return addInputTensor(TensorInfo(dataTypeFromString(dataType), shape), dc);
}
TensorId Builder::addInputTensor(const TensorInfo &info, const InputSettings &settings, const DebugContext &dc) {
  const TensorId id = addInputTensor(info, dc);
  core_.setInputSettings(id, settings);
  return id;
}
TensorId Builder::addInputTensor(const std::string &dataType, const Shape &shape, const InputSettings &settings,
                                 const DebugContext &dc) {
  return addInputTensor(TensorInfo(dataTypeFromString(dataType), shape), settings, dc);
}
TensorId Builder::addUntypedInputTensor(const DebugContext &dc) {
  return core_.addUntypedInputTensor(dc.getPathName());
}
void Builder::addInputTensorFromParentGraph(const TensorId &id) { core_.addInputTensorFromParentGraph(id); }
TensorId Builder::addInitializedInputTensor(const ConstVoidData &data, const DebugContext &dc) {
  return core_.addInitializedInputTensor(toTensorData(data), dc.getPathName());
}
TensorId Builder::addInitializedInputTensor(const ConstVoidData &initData, const VariableSettings &settings,
                                            const DebugContext &debugContext) {
  settings.verify();
  const TensorId id = addInitializedInputTensor(initData, debugContext);
  core_.setVariableSettings(id, settings);
  return id;
}

void Builder::addOutputTensor(const TensorId &id) { core_.addOutputTensor(id); }

std::vector<TensorId> Builder::customOp(const OperatorIdentifier &opid, int opsetVersion,
                                        const std::vector<TensorId> &inputs, unsigned numOutputs,
                                        const std::map<std::string, popart::any> &attributes, const DebugContext &dc) {
  return core_.addNode(opid.domain, onnx::recordedVersion(opid.domain, opsetVersion), opid.type, inputs,
                       static_cast<int>(numOutputs), toAttributes(attributes), dc.getPathName());
}
void Builder::customOp(const OperatorIdentifier &opid, int opsetVersion, const std::vector<TensorId> &inputs,
                       const std::vector<TensorId> &outputs, const std::map<std::string, popart::any> &attributes,
                       const DebugContext &dc) {
  core_.addNodeNamed(opid.domain, onnx::recordedVersion(opid.domain, opsetVersion), opid.type, inputs, outputs,
                     toAttributes(attributes), dc.getPathName());
}

// ---- placement ----------------------------------------------------------------------------------

void Builder::virtualGraph(const Ids &ids, int64_t value) {
  core_.addNodeAttribute(kVirtualGraph, value, ids, Replace::Allow);
}
void Builder::executionPhase(const Ids &ids, int64_t value) {
  core_.addNodeAttribute(kExecutionPhase, value, ids, Replace::Allow);
}
void Builder::pipelineStage(const Ids &ids, int64_t value) {
  core_.addNodeAttribute(kPipelineStage, value, ids, Replace::Allow);
}
void Builder::recomputeOutputInBackwardPass(const Ids &ids, RecomputeType value) {
  core_.addNodeAttribute(kRecompute, static_cast<int64_t>(value), ids, Replace::Allow);
}
bool Builder::getRecomputeOutputInBackwardPass(const Ids &ids) {
  return nodeHasAttribute(kRecompute, ids) &&
         getInt64NodeAttribute(kRecompute, ids) == static_cast<int64_t>(RecomputeType::Recompute);
}
std::vector<TensorId> Builder::checkpointOutput(const std::vector<TensorId> &ids) {
  return core_.checkpointOutput(ids);
}
void Builder::outputTensorLocation(const TensorId &id, const TensorLocation &location) {
  core_.addNodeAttribute("__output_tensor_location", location.serialize(), {id}, Replace::Allow);
}
void Builder::excludePatterns(const Ids &ids, const std::vector<std::string> &patterns) {
  core_.addNodeAttribute("__exclude_patterns", patterns, ids, Replace::Allow);
}
void Builder::setSerializeMatMul(const Ids &ids, const std::string &mode, int64_t factor, bool keep_precision) {
  check(mode == "input_channels" || mode == "reducing_dim" || mode == "output_channels" || mode == "none",
        "setSerializeMatMul: unknown mode: got '{}', expected input_channels, reducing_dim, output_channels or none",
        mode);
  core_.addNodeAttribute("__serialize_matmul_mode", mode, ids, Replace::Allow);
  core_.addNodeAttribute("__serialize_matmul_factor", factor, ids, Replace::Allow);
  core_.addNodeAttribute("__serialize_matmul_keep_precision", int64_t{keep_precision}, ids, Replace::Allow);
}
void Builder::setPartialsType(const TensorId &id, const std::string &partialsType) {
  requireType(core_, id, "setPartialsType", {"Conv", "MatMul"});
  core_.addNodeAttribute(kPartialsType, partialsType, {id}, Replace::Allow);
}
std::string Builder::getPartialsType(const TensorId &id) {
  requireType(core_, id, "getPartialsType", {"Conv", "MatMul"});
  return core_.nodeHasAttribute(kPartialsType, {id}) ? getStringNodeAttribute(kPartialsType, {id}) : "FLOAT";
}
void Builder::setAvailableMemoryProportion(const Ids &ids, float proportion) {
  check(proportion > 0.0f && proportion <= 1.0f,
        "setAvailableMemoryProportion: got {}, expected a value above 0 and at most 1", proportion);
  core_.addNodeAttribute("__available_memory_proportion", proportion, ids, Replace::Allow);
}
void Builder::setEnableConvDithering(const TensorId &id, int64_t value) {
  requireType(core_, id, "setEnableConvDithering", {"Conv"});
  core_.addNodeAttribute("__enable_conv_dithering", value, {id}, Replace::Allow);
}
void Builder::setInplacePreferences(const TensorId &id, const std::map<OpType, float> &priorities) {
  std::vector<std::string> names;
  std::vector<float> values;
  for (const auto &[name, value] : priorities) {
    names.push_back(name);
    values.push_back(value);
  }
  core_.addNodeAttribute("__inplace_op_names", names, {id}, Replace::Allow);
  core_.addNodeAttribute("__inplace_op_priorities", values, {id}, Replace::Allow);
}

// ---- scopes -------------------------------------------------------------------------------------

void Builder::setAttribute(const std::string &name, const popart::any &value) {
  core_.setScopeAttribute(name, toAttribute(name, value));
}
popart::any Builder::getAttribute(const std::string &name) const {
  return std::visit([](const auto &v) { return popart::any(v); }, core_.getScopeAttribute(name));
}
bool Builder::hasAttribute(const std::string &name) const { return core_.hasScopeAttribute(name); }
void Builder::clearAttribute(const std::string &name) { core_.clearScopeAttribute(name); }
int64_t Builder::getPipelineStage() const {
  return valueOf<int64_t>(core_.getScopeAttribute(kPipelineStage), kPipelineStage, "int64_t");
}
int64_t Builder::getExecutionPhase() const {
  return valueOf<int64_t>(core_.getScopeAttribute(kExecutionPhase), kExecutionPhase, "int64_t");
}
int64_t Builder::getVirtualGraph() const {
  return valueOf<int64_t>(core_.getScopeAttribute(kVirtualGraph), kVirtualGraph, "int64_t");
}
void Builder::pushNameScope(const std::string &name) { core_.pushNameScope(name); }
void Builder::popNameScope() { core_.popNameScope(); }
std::string Builder::getNameScope(const std::string &name) const { return core_.getNameScope(name); }
void Builder::setGraphName(const std::string &name) { core_.setGraphName(name); }
void Builder::embedReplicationFactor(int factor) { core_.embedReplicationFactor(factor); }

// ---- node attributes ----------------------------------------------------------------------------

void Builder::addNodeAttribute(const std::string &name, const popart::any &value, const Ids &ids) {
  core_.addNodeAttribute(name, toAttribute(name, value), ids);
}
bool Builder::nodeHasAttribute(const std::string &name, const Ids &ids) { return core_.nodeHasAttribute(name, ids); }
int64_t Builder::getInt64NodeAttribute(const std::string &name, const Ids &ids) {
  return valueOf<int64_t>(core_.getNodeAttribute(name, ids), name, "int64_t");
}
std::vector<int64_t> Builder::getInt64VectorNodeAttribute(const std::string &name, const Ids &ids) {
  return valueOf<std::vector<int64_t>>(core_.getNodeAttribute(name, ids), name, "a vector of int64_t");
}
float Builder::getFloatNodeAttribute(const std::string &name, const Ids &ids) {
  return valueOf<float>(core_.getNodeAttribute(name, ids), name, "float");
}
std::vector<float> Builder::getFloatVectorNodeAttribute(const std::string &name, const Ids &ids) {
  return valueOf<std::vector<float>>(core_.getNodeAttribute(name, ids), name, "a vector of float");
}
std::string Builder::getStringNodeAttribute(const std::string &name, const Ids &ids) {
  return valueOf<std::string>(core_.getNodeAttribute(name, ids), name, "std::string");
}
std::vector<std::string> Builder::getStringVectorNodeAttribute(const std::string &name, const Ids &ids) {
  return valueOf<std::vector<std::string>>(core_.getNodeAttribute(name, ids), name, "a vector of std::string");
}
bool Builder::getBoolNodeAttribute(const std::string &name, const Ids &ids) {
  return getInt64NodeAttribute(name, ids) != 0;
}
void Builder::removeNodeAttribute(const std::string &name, const Ids &ids) { core_.removeNodeAttribute(name, ids); }
std::vector<std::string> Builder::getAllNodeAttributeNames(const Ids &ids) {
  return core_.getAllNodeAttributeNames(ids);
}

// ---- queries and the model ----------------------------------------------------------------------

std::vector<TensorId> Builder::getInputTensorIds() const { return core_.getInputTensorIds(); }
std::vector<TensorId> Builder::getOutputTensorIds() const { return core_.getOutputTensorIds(); }
std::vector<TensorId> Builder::getValueTensorIds() const { return core_.getValueTensorIds(); }
std::vector<TensorId> Builder::getTrainableTensorIds() const { return core_.getTrainableTensorIds(); }
bool Builder::hasValueInfo(const TensorId &id) const { return core_.hasTensorInfo(id); }
bool Builder::isInitializer(const TensorId &id) const { return core_.isInitializer(id); }
std::vector<int64_t> Builder::getTensorShape(const TensorId &id) { return core_.getTensorInfo(id).shape(); }
std::string Builder::getTensorDtypeString(const TensorId &id) { return toText(getTensorDataType(id)); }
DataType Builder::getTensorDataType(const TensorId &id) { return core_.getTensorInfo(id).dataType(); }
std::string Builder::getModelProto(bool humanReadable) const {
  return humanReadable ? core_.getModelText() : core_.getModelProto();
}
void Builder::saveModelProto(const std::string &fileName) { core_.saveModelProto(fileName); }
void Builder::saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName) {
  core_.saveInitializersExternally(ids, fileName);
}

}  // namespace popart
