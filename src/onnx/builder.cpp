// ModelBuilder: tensors, nodes, names, operator sets.
#include "onnx/builder.hpp"

#include <algorithm>
#include <atomic>

#include <popart/error.hpp>
#include <popart/logging.hpp>
#include <popart/opdef.hpp>

#include "base/nearest.hpp"
#include "ir/facts.hpp"
#include "onnx/builder_state.hpp"
#include "onnx/importer.hpp"
#include "onnx/input_metadata.hpp"
#include "onnx/operator_table.hpp"
#include "onnx/result_name.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

std::string generatedGraphName() {
  static std::atomic<int> count{0};
  return "BuilderGraph_" + std::to_string(count++);
}

void setInfo(onnx_proto::ValueInfoProto &value, const std::string &name, const TensorInfo &info) {
  value.set_name(name);
  auto *type = value.mutable_type()->mutable_tensor_type();
  const int onnxType = toOnnxDataType(info.dataType());
  check(onnxType != 0, "Tensor '{}': ONNX has no element type for {}", name, info);
  type->set_elem_type(onnxType);
  type->mutable_shape();
  for (int64_t d : info.shape()) type->mutable_shape()->add_dim()->set_dim_value(d);
}

std::string domainName(const std::string &domain) { return domain.empty() ? "ai.onnx" : domain; }

// Values needed to infer shapes; large weights are only known by their info.
constexpr int64_t kScratchValueBytes = int64_t{1} << 20;

}  // namespace

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
}

ModelBuilder::ModelBuilder(ModelBuilder &parent) : parent_(&parent), state_(std::make_unique<State>()) {
  State &s = *state_;
  s.ownGraph = std::make_shared<onnx_proto::GraphProto>();
  s.graph = s.ownGraph.get();
  s.graph->set_name(generatedGraphName());
  Ir &ir = root().state_->ir;
  s.scope.graph = &ir.createGraph(ir.createUniqueSubgraphId("builder"));
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
  throw error("Builder: '{}' is no input of this graph", id);
}

void ModelBuilder::setVariableSettings(const TensorId &id, const VariableSettings &settings) {
  settings.verify();
  if (settings == VariableSettings()) return;
  const auto found = state_->scope.tensors.find(id);
  check(found != state_->scope.tensors.end(), "Builder: '{}' is no input of this graph", id);
  Tensor &tensor = state_->scope.graph->tensor(found->second);
  tensor.variableSettings = settings;
  setInputMetadata(id, kReplicasKey, tensorFacts(tensor).getAttribute<std::vector<int64_t>>("replicas"));
  const auto replicas = static_cast<unsigned>(root().state_->options.replicas);
  if (replicas > 1)  // of embedReplicationFactor; else the shape on a replica is not known yet
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
      "input '" + id + "' of the subgraph has no type of its own: the node that runs the subgraph gives it one";
  return id;
}

void ModelBuilder::addInputTensorFromParentGraph(const TensorId &id) {
  check(parent_ && parent_->hasTensor(id), "Builder: tensor '{}' is in no parent graph", id);
  // A formal input without a type of its own; shapes are inferred here with the parent's tensor.
  state_->graph->add_input()->set_name(id);
}

TensorId ModelBuilder::addInitializedInputTensor(const TensorData &value, const std::string &debugName) {
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
  tensor.set_data_type(toOnnxDataType(info.dataType()));
  for (int64_t d : info.shape()) tensor.add_dims(d);
  tensor.set_raw_data(value.data(), static_cast<size_t>(value.nbytes()));
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

void ModelBuilder::addOutputTensor(const TensorId &id) {
  check(hasTensor(id), "Builder: output '{}' is no tensor of this graph. Nearest names: {}", id,
        nearest(id, std::vector<std::string>(state_->tensors.begin(), state_->tensors.end())));
  auto *output = state_->graph->add_output();
  output->set_name(id);
  if (hasTensorInfo(id)) setInfo(*output, id, getTensorInfo(id));
}

// ---- nodes --------------------------------------------------------------------------------------

void ModelBuilder::fixOpset(const std::string &domain, int64_t version) {
  State &s = *root().state_;
  auto [entry, isNew] = s.opsets.emplace(domain, version);
  check(entry->second == version,
        "Builder: operator set {} of {} is defined already: got version {}. Use one version of a domain in a model",
        entry->second, domain, version);
  if (!isNew) return;
  auto *import = s.content->proto->add_opset_import();
  import->set_domain(domain == "ai.onnx" ? "" : domain);
  import->set_version(version);
  s.scope.opsets = s.opsets;
}

std::vector<TensorId> ModelBuilder::knownInputs(const std::string &type, const std::vector<TensorId> &inputs) const {
  std::vector<TensorId> ids = inputs;
  for (TensorId &id : ids) {
    if (id.empty() || hasTensor(id)) continue;
    const std::optional<TensorId> meant = tensorMeantBy(id, root().getOutputTensorIds());
    if (!meant)
      throw error("Builder: {}: input tensor '{}' does not exist. Nearest names: {}", type, id,
                  nearest(id, std::vector<std::string>(root().state_->names.begin(), root().state_->names.end())));
    logging::builder::warn("{}: the model has no tensor '{}': taken as its only output, '{}'", type, id, *meant);
    id = *meant;
  }
  return ids;
}

namespace {

// The scale of FLOAT8 operands is an input that ONNX's operators do not have.
int scaleInputs(const std::string &type) {
  const OpDef *row = findOpDef(type);
  return row && !row->inputs().empty() && row->inputs().back().name == "log2_scale" ? 1 : 0;
}

void requireArity(const std::string &domain, const std::string &type, size_t inputs, size_t outputs) {
  if (domain != "ai.onnx") return;
  const auto arity = findArity(type);
  check(arity.has_value(), "Builder: ai.onnx has no operator '{}'", type);
  const auto in = static_cast<int>(inputs), out = static_cast<int>(outputs);
  check(in >= arity->minInputs && (arity->maxInputs < 0 || in <= arity->maxInputs + scaleInputs(type)),
        "Builder: {}: wrong number of inputs: got {}, expected {} to {}", type, in, arity->minInputs,
        arity->maxInputs < 0 ? std::string("any number") : std::to_string(arity->maxInputs));
  check(arity->maxOutputs < 0 || out <= arity->maxOutputs, "Builder: {}: too many outputs: got {}, expected at most {}",
        type, out, arity->maxOutputs);
}

}  // namespace

namespace {

// Convolutions, pools and Pad, whose attributes are checked when the node is added.
bool hasPads(const onnx_proto::NodeProto &node, const std::map<std::string, int64_t> &opsets) {
  const std::string domain = domainName(node.domain());
  const auto version = opsets.find(domain);
  const OpDef *row =
      version == opsets.end() ? nullptr : findOnnxOp(domain, node.op_type(), static_cast<OpVersion>(version->second));
  return row && row->findAttribute("pads");
}

}  // namespace

std::vector<TensorId> ModelBuilder::addNode(const std::string &domain, int64_t opset, const std::string &type,
                                            const std::vector<TensorId> &inputs, int outputs,
                                            const BuilderAttributes &attributes, const std::string &debugName) {
  const std::vector<TensorId> known = knownInputs(type, inputs);
  requireArity(domainName(domain), type, inputs.size(), static_cast<size_t>(std::max(outputs, 0)));
  fixOpset(domainName(domain), opset);
  std::vector<TensorId> ids;
  for (int i = 0; i < outputs; ++i) ids.push_back(freeName(getNameScope(type + ":" + std::to_string(i))));
  for (const auto &id : ids) root().state_->names.erase(id);
  addNodeNamed(domain, opset, type, known, ids, attributes, debugName);
  return ids;
}

void ModelBuilder::addNodeNamed(const std::string &domain, int64_t opset, const std::string &type,
                                const std::vector<TensorId> &inputs, const std::vector<TensorId> &outputIds,
                                const BuilderAttributes &attributes, const std::string &debugName) {
  const std::vector<TensorId> known = knownInputs(type, inputs);
  requireArity(domainName(domain), type, inputs.size(), outputIds.size());
  auto &names = root().state_->names;
  for (const auto &id : outputIds)
    check(!names.count(id), "Builder: {}: output '{}' exists already. Choose another name", type, id);
  fixOpset(domainName(domain), opset);
  auto &node = *state_->graph->add_node();
  node.set_op_type(type);
  if (domainName(domain) != "ai.onnx") node.set_domain(domain);
  node.set_name(getNameScope(debugName));
  for (const auto &id : known) node.add_input(id);
  for (const auto &id : outputIds) {
    node.add_output(id);
    names.insert(id);
    state_->tensors.insert(id);
    state_->producer[id] = state_->graph->node_size() - 1;
  }
  for (const auto &[name, value] : attributes) fillAttribute(*node.add_attribute(), name, value);
  for (const auto &[name, value] : scopeAttributes_) fillAttribute(*node.add_attribute(), name, value);
  inferLastNode();
}

void ModelBuilder::inferLastNode() {
  State &s = *state_;
  const auto &node = s.graph->node(s.graph->node_size() - 1);
  s.scope.opsets = root().state_->opsets;
  const std::string refusal = root().state_->importer->tryImportNode(node, s.scope);
  if (!refusal.empty()) {
    // Other nodes are refused where the program is built: only there is it known what is supported.
    const auto known = [this](const std::string &id) { return id.empty() || hasTensorInfo(id); };
    if (!hasPads(node, s.scope.opsets) || !std::ranges::all_of(node.input(), known)) return;
    for (const auto &output : node.output()) {
      root().state_->names.erase(output);
      s.tensors.erase(output);
      s.producer.erase(output);
      s.scope.refusals.erase(output);
    }
    s.graph->mutable_node()->RemoveLast();
    throw error("Builder: {}", refusal);
  }
  for (const auto &output : node.output())
    if (!output.empty() && hasTensorInfo(output)) setInfo(*s.graph->add_value_info(), output, getTensorInfo(output));
}

std::vector<TensorId> ModelBuilder::checkpointOutput(const std::vector<TensorId> &ids) {
  std::vector<TensorId> results;
  for (const auto &id : ids) {
    BuilderAttributes attributes = {{"__recompute_output_in_backward_pass", int64_t{1}},  // RecomputeType::Checkpoint
                                    {"__exclude_patterns", std::vector<std::string>{"PreUniRepl", "PostNRepl"}}};
    constexpr int64_t kDefaultOpset = 10;
    const auto saved = scopeAttributes_;
    for (const auto &entry : attributes) scopeAttributes_.erase(entry.first);
    results.push_back(
        addNode("ai.onnx", opset("ai.onnx").value_or(kDefaultOpset), "Identity", {id}, 1, attributes).front());
    scopeAttributes_ = saved;
  }
  return results;
}

std::optional<int64_t> ModelBuilder::opset(const std::string &domain) const {
  const auto &opsets = root().state_->opsets;
  auto found = opsets.find(domainName(domain));
  return found == opsets.end() ? std::nullopt : std::optional<int64_t>(found->second);
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
