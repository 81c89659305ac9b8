// ModelBuilder: tensors, nodes, names, operator sets.
#include "onnx/builder.hpp"

#include <algorithm>
#include <atomic>

#include <popart/error.hpp>

#include "base/nearest.hpp"
#include "ir/facts.hpp"
#include "onnx/builder_state.hpp"
#include "onnx/importer.hpp"
#include "onnx/input_metadata.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

std::string generatedGraphName() {
  static std::atomic<int> count{0};
  return "BuilderGraph_" + std::to_string(count++);
}

// Values that shape inference needs; for large weights only the info is known.
constexpr int64_t kScratchValueBytes = int64_t{1} << 20;

}  // namespace

void setInfo(onnx_proto::ValueInfoProto &value, const std::string &name, const TensorInfo &info) {
  value.set_name(name);
  auto *type = value.mutable_type()->mutable_tensor_type();
  const int onnxType = toOnnxDataType(info.dataType());
  check(onnxType != 0, "Tensor '{}': ONNX has no element type for {}", name, info);
  type->set_elem_type(onnxType);
  type->mutable_shape();
  for (int64_t d : info.shape()) type->mutable_shape()->add_dim()->set_dim_value(d);
}

// ---- construction -------------------------------------------------------------------------------

ModelBuilder::ModelBuilder(EvaluateOp evaluate) : state_(std::make_unique<State>()) {
  State &s = *state_;
  s.content = std::make_shared<ModelContent>();
  s.content->name = "<builder>";
  s.content->proto->mutable_graph()->set_name(generatedGraphName());
  s.content->proto->set_producer_name("popart");
  s.graph = s.content->proto->mutable_graph();
  s.options.evaluate = std::move(evaluate);
  s.options.versions = OpVersionRule::Lenient;
  s.options.unknownAttributes = UnknownAttributes::Drop;
  s.options.replicas = 0;
  s.importer = std::make_unique<Importer>(*s.content, s.options, s.ir);
  s.scope.graph = &s.ir.getMainGraph();
  s.scope.source = s.graph;
}

ModelBuilder::ModelBuilder(ModelBuilder &parent) : parent_(&parent), state_(std::make_unique<State>()) {
  State &s = *state_;
  s.ownGraph = std::make_shared<onnx_proto::GraphProto>();
  s.graph = s.ownGraph.get();
  s.graph->set_name(generatedGraphName());
  Ir &ir = root().state_->ir;
  s.scope.graph = &ir.createGraph(ir.createUniqueSubgraphId("builder"));
  s.scope.source = s.graph;
  s.scope.outer = &parent.state_->scope;
  nameScopes_ = parent.nameScopes_;
}

ModelBuilder::~ModelBuilder() = default;

std::unique_ptr<ModelBuilder> ModelBuilder::fromModel(const std::string &modelProtoOrFilename, EvaluateOp evaluate) {
  const Model model = Model::fromProtoOrFile(modelProtoOrFilename);
  auto builder = std::make_unique<ModelBuilder>(std::move(evaluate));
  State &s = *builder->state_;
  s.loaded = model.shared();
  s.content->files = ExternalFiles(model.content().files.folder());
  *s.content->proto = wholeMessage(model.content());
  s.graph = s.content->proto->mutable_graph();
  s.opsets = model.opsets();
  s.scope.opsets = s.opsets;
  s.importer = std::make_unique<Importer>(model.content(), s.options, s.ir);
  for (const auto &node : s.graph->node()) checkArity(node, s.opsets);
  builder->registerModelTensors();
  return builder;
}

void ModelBuilder::registerModelTensors() {
  State &s = *state_;
  const auto &source = s.loaded->proto->graph();
  auto define = [&](const std::string &name) {
    s.tensors.insert(name);
    s.names.insert(name);
  };
  for (const auto &tensor : source.initializer()) {
    define(tensor.name());
    s.initializers.insert(tensor.name());
  }
  for (const auto &input : source.input()) define(input.name());
  s.importer->importAvailable(source, s.scope);
  s.scope.source = s.graph;
  for (int i = 0; i < source.node_size(); ++i)
    for (const auto &output : source.node(i).output()) {
      if (output.empty()) continue;
      define(output);
      s.producer[output] = i;
    }
}

ModelBuilder &ModelBuilder::createSubgraphBuilder() {
  children_.push_back(std::unique_ptr<ModelBuilder>(new ModelBuilder(*this)));
  return *children_.back();
}

// ---- names --------------------------------------------------------------------------------------

std::string ModelBuilder::freeName(const std::string &wanted) {
  State &state = *root().state_;
  std::string name = wanted;
  while (!state.names.insert(name).second) name = wanted + "/" + std::to_string(++state.lastNumbers[wanted]);
  state_->tensors.insert(name);
  return name;
}

void ModelBuilder::pushNameScope(const std::string &name) { nameScopes_.push_back(name); }
void ModelBuilder::popNameScope() {
  check(!nameScopes_.empty(), "Builder: popNameScope without an open name scope");
  nameScopes_.pop_back();
}
std::string ModelBuilder::getNameScope(const std::string &name) const {
  std::string text;
  for (const auto &part : nameScopes_) text += part + "/";
  return text + name;
}

void ModelBuilder::setScopeAttribute(const std::string &name, BuilderAttribute value) {
  scopeAttributes_[name] = std::move(value);
}
const BuilderAttribute &ModelBuilder::getScopeAttribute(const std::string &name) const {
  auto found = scopeAttributes_.find(name);
  check(found != scopeAttributes_.end(), "Builder: attribute '{}' is not set in the current scope", name);
  return found->second;
}

// ---- tensors ------------------------------------------------------------------------------------

TensorId ModelBuilder::addInputTensor(const TensorInfo &info, const std::string &debugName) {
  check(info.isSet(),
        "Builder: an input tensor needs an element type and a shape. Use addUntypedInputTensor in subgraphs");
  const TensorId id = freeName(getNameScope(debugName.empty() ? "input" : debugName));
  setInfo(*state_->graph->add_input(), id, info);
  Graph &graph = *state_->scope.graph;
  const TensorId scratchId = root().state_->importer->freshId(graph, graph.addScope(id));
  state_->scope.tensors[id] = parent_ ? graph.addInput(scratchId, info) : graph.addStream(scratchId, info);
  return id;
}

TensorId ModelBuilder::addOpenInputTensor(DataType type, const std::vector<std::pair<int64_t, std::string>> &shape,
                                          const std::string &debugName) {
  Shape sizes;
  for (const auto &dimension : shape) sizes.push_back(dimension.first);
  if (std::ranges::all_of(sizes, [](int64_t size) { return size >= 0; }))
    return addInputTensor(TensorInfo(type, sizes), debugName);
  check(parent_ == nullptr,
        "Builder: an input of a subgraph has no open dimensions: got {}. Use addUntypedInputTensor: the node that runs "
        "the subgraph gives the shape",
        sizes);
  const TensorId id = freeName(getNameScope(debugName.empty() ? "input" : debugName));
  auto &input = *state_->graph->add_input();
  input.set_name(id);
  auto &declared = *input.mutable_type()->mutable_tensor_type();
  declared.set_elem_type(toOnnxDataType(type));
  for (const auto &[size, symbol] : shape) {
    auto &dim = *declared.mutable_shape()->add_dim();
    if (size >= 0)
      dim.set_dim_value(size);
    else
      dim.set_dim_param(symbol);
  }
  state_->scope.refusals[id] = "input '" + id + "' has open dimensions: the shape is given when the session is made";
  return id;
}

void ModelBuilder::setInputMetadata(const TensorId &id, const std::string &key, const std::vector<int64_t> &numbers) {
  for (auto &input : *state_->graph->mutable_input()) {
    if (input.name() != id) continue;
    auto &entry = *input.add_metadata_props();
    entry.set_key(key);
    std::string text;
    for (int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
    entry.set_value(text);
    return;
  }
  throw error("Builder: '{}' is not an input of this graph", id);
}

void ModelBuilder::setVariableSettings(const TensorId &id, const VariableSettings &settings) {
  settings.verify();
  if (settings == VariableSettings()) return;
  const auto found = state_->scope.tensors.find(id);
  check(found != state_->scope.tensors.end(), "Builder: '{}' is not an input of this graph", id);
  Tensor &tensor = state_->scope.graph->tensor(found->second);
  tensor.variableSettings = settings;
  setInputMetadata(id, kReplicasKey, tensorFacts(tensor).getAttribute<std::vector<int64_t>>("replicas"));
  const auto replicas = static_cast<unsigned>(root().state_->options.replicas);
  if (replicas > 1)  // from embedReplicationFactor; otherwise the shape on a replica is not known yet
    tensor.info = TensorInfo(tensor.info.dataType(), settings.shapeOnReplica(tensor.info.shape(), replicas, id));
}

void ModelBuilder::setInputSettings(const TensorId &id, const InputSettings &settings) {
  if (settings == InputSettings()) return;
  setInputMetadata(id, kInputSettingsKey,
                   {static_cast<int64_t>(settings.tileSet()), static_cast<int64_t>(settings.exchangeStrategy()),
                    static_cast<int64_t>(settings.replicatedStreamMode())});
}

TensorId ModelBuilder::addUntypedInputTensor(const std::string &debugName) {
  check(parent_ != nullptr,
        "Builder: an untyped input is allowed in a subgraph only. Give addInputTensor a TensorInfo");
  const TensorId id = freeName(getNameScope(debugName.empty() ? "input" : debugName));
  state_->graph->add_input()->set_name(id);
  state_->untyped.push_back(id);
  state_->scope.refusals[id] =
      "input '" + id + "' of the subgraph has no declared type: the node that runs the subgraph gives it one";
  return id;
}

void ModelBuilder::addInputTensorFromParentGraph(const TensorId &id) {
  check(parent_ && parent_->hasTensor(id), "Builder: tensor '{}' is in no parent graph", id);
  // A formal input without a declared type; shapes are inferred here with the parent's tensor.
  state_->graph->add_input()->set_name(id);
}

TensorId ModelBuilder::addInitializedInputTensor(const TensorData &value, const std::string &debugName) {
  // types for which PopART had no initialised tensors
  static constexpr DataType kRefused[] = {DataType::DOUBLE,     DataType::COMPLEX64, DataType::COMPLEX128,
                                          DataType::STRING,     DataType::BFLOAT16,  DataType::FLOAT8_143,
                                          DataType::FLOAT8_152, DataType::UNDEFINED};
  const TensorInfo &info = value.info();
  check(std::find(std::begin(kRefused), std::end(kRefused), info.dataType()) == std::end(kRefused),
        "Builder: initialised tensor '{}': element type is not supported: got {}. Use float32, float16, an integer "
        "type or bool",
        debugName, info.dataType());
  const TensorId id = freeName(getNameScope(debugName.empty() ? "init_input" : debugName));
  auto &tensor = *state_->graph->add_initializer();
  tensor.set_name(id);
  setPayload(tensor, value);
  setInfo(*state_->graph->add_input(), id, info);
  state_->initializers.insert(id);
  Graph &graph = *state_->scope.graph;
  const TensorId scratchId = root().state_->importer->freshId(graph, graph.addScope(id));
  const bool weight = isFloatingPoint(info.dataType()) || value.nbytes() > kScratchValueBytes;
  const TensorIndex t = graph.addTensor(scratchId, info, weight ? TensorType::Variable : TensorType::Const);
  if (value.nbytes() <= kScratchValueBytes) graph.tensor(t).setTensorData(TensorData(info, value.data()));
  state_->scope.tensors[id] = t;
  return id;
}

// Whether the size of a tensor depends on the number of replicas, which a model does not state.
static bool isSizedByReplicas(const Graph &graph, TensorIndex tensor) {
  std::set<TensorIndex> seen{tensor};
  std::vector<TensorIndex> waiting{tensor};
  while (!waiting.empty()) {
    const Op *producer = graph.tensor(waiting.back()).getProducerUnsafe();
    waiting.pop_back();
    if (!producer) continue;
    if (producer->is(Role::ReplicatedReduceScatter) || producer->is(Role::ReplicatedAllGather)) return true;
    for (const TensorIndex input : producer->inputs())
      if (input.valid() && seen.insert(input).second) waiting.push_back(input);
  }
  return false;
}

void ModelBuilder::addOutputTensor(const TensorId &id) {
  check(hasTensor(id), "Builder: output '{}' is not a tensor of this graph{}", id,
        nearestText(id, std::vector<std::string>(state_->tensors.begin(), state_->tensors.end())));
  auto *output = state_->graph->add_output();
  output->set_name(id);
  if (!hasTensorInfo(id)) return;
  setInfo(*output, id, getTensorInfo(id));
  const auto own = state_->scope.tensors.find(id);
  if (own != state_->scope.tensors.end() && isSizedByReplicas(*state_->scope.graph, own->second))
    output->mutable_type()->mutable_tensor_type()->clear_shape();
}

// ---- queries ------------------------------------------------------------------------------------

bool ModelBuilder::hasTensor(const TensorId &id) const {
  return state_->tensors.count(id) || (parent_ && parent_->hasTensor(id));
}
bool ModelBuilder::isInitializer(const TensorId &id) const { return state_->initializers.count(id) != 0; }

bool ModelBuilder::hasTensorInfo(const TensorId &id) const {
  auto found = state_->scope.tensors.find(id);
  if (found == state_->scope.tensors.end()) return parent_ && parent_->hasTensorInfo(id);
  return found->second.valid() && state_->scope.graph->info(found->second).isSet();
}

TensorInfo ModelBuilder::getTensorInfo(const TensorId &id) const {
  if (!hasTensor(id)) {
    const std::set<std::string> known(state_->tensors.begin(), state_->tensors.end());
    throw error("Builder: tensor '{}' does not exist. Known tensors: {}", id,
                std::vector<std::string>(known.begin(), known.end()));
  }
  if (!hasTensorInfo(id)) throw error("Builder: the shape of tensor '{}' is not known: {}", id, whyUnknown(id));
  auto found = state_->scope.tensors.find(id);
  return found == state_->scope.tensors.end() ? parent_->getTensorInfo(id) : state_->scope.graph->info(found->second);
}

Model::Input ModelBuilder::declaredTensor(const TensorId &id) const {
  if (!hasTensor(id) || hasTensorInfo(id)) {
    const TensorInfo info = getTensorInfo(id);
    Model::Input known{id, info.dataType(), true, {}};
    for (int64_t size : info.shape()) known.shape.emplace_back(size, "");
    return known;
  }
  for (const auto *values : {&state_->graph->output(), &state_->graph->input(), &state_->graph->value_info()})
    for (const auto &value : *values)
      if (value.name() == id) return declaredValue(value);
  if (parent_ && !state_->tensors.count(id)) return parent_->declaredTensor(id);
  return {id, DataType::UNDEFINED, false, {}};
}

std::string ModelBuilder::whyUnknown(const TensorId &id) const {
  const auto found = state_->scope.refusals.find(id);
  if (found != state_->scope.refusals.end()) return found->second;
  return parent_ ? parent_->whyUnknown(id) : "it is not read off the nodes before it";
}

std::vector<TensorId> ModelBuilder::getInputTensorIds() const {
  std::vector<TensorId> ids;
  for (const auto &input : state_->graph->input()) ids.push_back(input.name());
  return ids;
}
std::vector<TensorId> ModelBuilder::getOutputTensorIds() const {
  std::vector<TensorId> ids;
  for (const auto &output : state_->graph->output()) ids.push_back(output.name());
  return ids;
}
std::vector<TensorId> ModelBuilder::getValueTensorIds() const {
  std::vector<TensorId> ids;
  for (const auto &value : state_->graph->value_info()) ids.push_back(value.name());
  return ids;
}
std::vector<TensorId> ModelBuilder::getTrainableTensorIds() const {
  std::vector<TensorId> ids;
  for (const auto &tensor : state_->graph->initializer()) ids.push_back(tensor.name());
  return ids;
}

}  // namespace popart::onnx
