// The view of a node for import rules, the regular rule, and the look-up of other rules.
#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>

#include <popart/error.hpp>

#include "base/nearest.hpp"
#include "onnx/import/microsoft.hpp"
#include "onnx/importer.hpp"
#include "onnx/model_check.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {

NodeContext::NodeContext(Importer &importer, Scope &scope, const onnx_proto::NodeProto &node, NodeAttributes attributes,
                         Op::Settings settings)
    : importer_(importer),
      scope_(scope),
      type_(node.op_type()),
      domain_(node.domain().empty() ? "ai.onnx" : node.domain()),
      overload_(node.overload()),
      text_(nodeText(node)),
      attributes_(std::move(attributes)),
      settings_(std::move(settings)) {
  auto version = scope.opsets.find(domain_);
  opset_ = version == scope.opsets.end() ? 1 : version->second;
  const auto rule = importRules().find({domain_, type_});
  const bool isFunction = importer.isFunction(*this), hasRule = !isFunction && rule != importRules().end();
  const bool takesSequences = isFunction || (hasRule && rule->second.takesSequences);
  const bool takesBounds = !hasRule || ruleTakesBounds(domain_, type_);
  for (const auto &name : node.input()) {
    const Sequence *sequence = takesSequences && !name.empty() ? importer.findSequence(name, scope) : nullptr;
    if (sequence) sequences_[static_cast<int>(inputs_.size())] = sequence;
    inputs_.push_back(name.empty() || sequence ? TensorIndex{} : importer.resolve(name, scope));
    if (!takesBounds) importer.requireKnownSize(*scope.graph, inputs_.back(), name, "the operator");
    inputNames_.push_back(name);
  }
  outputNames_.assign(node.output().begin(), node.output().end());
  while (!inputs_.empty() && !inputs_.back().valid()) inputs_.pop_back();
  while (!outputNames_.empty() && outputNames_.back().empty()) outputNames_.pop_back();
}

const onnx_proto::GraphProto &NodeContext::graphAttribute(const std::string &name) const {
  auto found = attributes_.graphs.find(name);
  if (found == attributes_.graphs.end()) fail("attribute '{}' is missing: expected a graph", name);
  return *found->second;
}

TensorIndex NodeContext::in(int i) const {
  if (!hasIn(i)) fail("input {} is missing. Connect a tensor to it", i);
  return inputs_[i];
}

int64_t NodeContext::axisOf(int64_t axis, int64_t rank) const {
  require(axis >= -rank && axis < rank, "axis: got {}, expected one of {} dimensions", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

bool NodeContext::isConstant(TensorIndex t) const {
  const Tensor &tensor = graph().tensor(t);
  return tensor.tensorType() == TensorType::Const && tensor.hasTensorData() &&
         importer_.sizes().boundsOf(graph(), t).empty();
}

// The tensor of the outermost graph for a body input; the tensor itself if it is no capture.
const Tensor &NodeContext::origin(TensorIndex t) const {
  const Scope *scope = &scope_;
  while (scope->outer) {
    if (scope->outer->graph != scope->graph) {
      const auto found = std::find_if(scope->captures.begin(), scope->captures.end(),
                                      [&](const Scope::Capture &c) { return c.inner == t; });
      if (found == scope->captures.end()) break;
      t = found->outer;
    }
    scope = scope->outer;
  }
  return scope->graph->tensor(t);
}

const TensorData *NodeContext::knownValue(int i) const {
  const Tensor &tensor = origin(in(i));
  importer_.foldWhatLeadsTo(tensor.getGraph(), tensor.index());
  // An initializer that determines a shape gets no gradient, so its value stays the same as in the model.
  const bool known = tensor.tensorType() == TensorType::Const || tensor.tensorType() == TensorType::Variable;
  const bool isOpen = !importer_.sizes().boundsOf(tensor.getGraph(), tensor.index()).empty();
  return known && tensor.hasTensorData() && !isOpen ? &tensor.tensorData() : nullptr;
}

const TensorData &NodeContext::constant(int i) const {
  if (const TensorData *value = knownValue(i)) return *value;
  throw unknown_value(
      "{}: input {} (tensor '{}', {}) must be known when the graph is built, but it depends on data of the run. Make "
      "it a constant or an initializer",
      text_, i, inputNames_[i], info(i));
}

std::vector<int64_t> NodeContext::constantInts(int i) const {
  const TensorData &data = constant(i);
  require(data.info().rank() <= 1, "input {} must have at most one dimension: got {}", i, data.info());
  require(isInteger(data.info().dataType()), "input {} must hold integers: got {}", i, data.info());
  return data.asInts();
}

int64_t NodeContext::constantInt(int i) const {
  const std::vector<int64_t> values = constantInts(i);
  require(values.size() == 1, "input {} must hold one integer: got {}", i, constant(i).info());
  return values.front();
}

double NodeContext::constantNumber(int i) const {
  const TensorData &data = constant(i);
  require(data.info().nelms() == 1, "input {} must hold one value: got {}", i, data.info());
  return data.asDoubles().front();
}

const std::string &NodeContext::firstOutput() const {
  require(!outputNames_.empty(), "has no outputs. Name at least one");
  return outputNames_.front();
}

TensorId NodeContext::outputId(int i) const {
  require(i < outputCount(), "output {} is missing. Name it", i);
  outputIds_.resize(outputNames_.size());
  TensorId &id = outputIds_.at(i);
  if (!id.empty()) return id;
  const std::string &name = outputNames_.at(i);
  auto wanted = scope_.wantedIds.find(name);
  if (wanted != scope_.wantedIds.end()) return id = wanted->second;
  id = graph().addScope(scope_.prefix + name);
  if (!scope_.prefix.empty() || graph().contains(id)) id = importer_.freshId(graph(), id);
  return id;
}

TensorIndex NodeContext::emit(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes) {
  std::string base = graph().addScope(scope_.prefix + std::string(type));
  for (const auto &name : outputNames_)
    if (!name.empty()) {
      base = graph().addScope(scope_.prefix + name) + "/" + std::string(type);
      break;
    }
  const TensorId id = importer_.freshId(graph(), base);
  importer_.addOp(graph(), type, inputs, {id}, std::move(attributes), settings_);
  return graph().find(id);
}

TensorIndex NodeContext::literal(const TensorData &value) {
  const std::string base = outputNames_.empty() ? type_ : outputNames_.front();
  return graph().addConstant(importer_.freshId(graph(), graph().addScope(scope_.prefix + base + "/constant")), value);
}

TensorIndex NodeContext::literalInts(const std::vector<int64_t> &values) {
  return literal(TensorData::of<int64_t>({static_cast<int64_t>(values.size())}, values));
}

TensorIndex NodeContext::literalLike(TensorIndex t, double value) {
  const TensorIndex number = literal(TensorData::scalar<float>(static_cast<float>(value)));
  const DataType type = info(t).dataType();
  if (type == DataType::FLOAT) return number;
  if (type == DataType::DOUBLE) return literal(TensorData::scalar<double>(value));
  return emit("Cast", {number}, {{"to", int64_t{toOnnxDataType(type)}}});
}

// Kernels write every required output, so an output that the node omits gets a tensor that nobody reads.
TensorId NodeContext::unusedId(std::string_view type, int output) const {
  const auto &rows = opDef(type).outputs();
  if (output < static_cast<int>(rows.size()) && rows[output].arity == Arity::Optional) return {};
  const std::string &base = outputNames_.empty() ? type_ : outputNames_.back();
  return importer_.freshId(graph(), graph().addScope(scope_.prefix + base) + "/unused" + std::to_string(output));
}

void NodeContext::results(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes) {
  const auto isRequired = [](const OutputDef &output) { return output.arity == Arity::Required; };
  require(outputCount() > 0 || std::ranges::none_of(opDef(type).outputs(), isRequired),
          "has no outputs. Name at least one");
  std::vector<TensorId> ids;
  for (int i = 0; i < outputCount(); ++i) ids.push_back(hasOut(i) ? outputId(i) : unusedId(type, i));
  importer_.addOp(graph(), type, inputs, ids, std::move(attributes), settings_);
  for (int i = 0; i < outputCount(); ++i)
    if (hasOut(i)) bind(i, graph().find(ids[i]));
}

void NodeContext::result(int output, std::string_view type, const std::vector<TensorIndex> &inputs,
                         Attributes attributes) {
  if (output < outputCount() && !hasOut(output)) return;
  const TensorId id = outputId(output);
  importer_.addOp(graph(), type, inputs, {id}, std::move(attributes), settings_);
  bind(output, graph().find(id));
}

void NodeContext::resultValue(int output, const TensorData &value) {
  if (output < outputCount() && !hasOut(output)) return;
  bind(output, graph().addConstant(outputId(output), value));
}

void NodeContext::resultTensor(int output, TensorIndex t) {
  if (isConstant(t)) return resultValue(output, graph().tensor(t).tensorData());
  result(output, "Identity", {t});
}

void NodeContext::bind(int output, TensorIndex t) {
  require(output < outputCount(), "output {} is missing. Name it", output);
  if (hasOut(output)) scope_.tensors[outputNames_[output]] = t;
}

void NodeContext::boundOutput(int output, const Bounds &bounds) {
  if (hasOut(output)) importer_.sizes().setBounds(graph(), scope_.tensors.at(outputNames_[output]), bounds);
}

Sizes NodeContext::sizesIn(int i) const {
  const Sizes *found = importer_.sizes().sizesIn(graph(), in(i));
  if (found) return *found;
  Sizes known;
  for (const int64_t value : constantInts(i)) known.push_back({value});
  return known;
}

void NodeContext::resultSizes(int output, const Sizes &sizes, int rank) {
  if (output < outputCount() && !hasOut(output)) return;
  const TensorId id = outputId(output);
  importer_.sizes().writeSizes(graph(), id, sizes, rank, settings_);
  bind(output, graph().find(id));
}

NodeContext NodeContext::as(const OperatorName &op, const std::vector<TensorIndex> &inputs, Attributes attributes,
                            std::vector<std::string> outputs) const {
  NodeContext other = *this;
  other.type_ = op.type, other.domain_ = op.domain, other.opset_ = op.opset;
  other.attributes_.values = std::move(attributes);
  other.inputs_ = inputs, other.sequences_.clear(), other.inputNames_.clear();
  for (TensorIndex t : inputs) other.inputNames_.push_back(t.valid() ? graph().tensor(t).id : TensorId());
  while (!other.inputs_.empty() && !other.inputs_.back().valid()) other.inputs_.pop_back();
  other.outputNames_ = std::move(outputs), other.outputIds_.clear();
  return other;
}

void NodeContext::importAs(const OperatorName &op, const std::vector<TensorIndex> &inputs,
                           Attributes attributes) const {
  NodeContext other = as(op, inputs, std::move(attributes), outputNames_);
  importByRule(other);
}

PlainOps NodeContext::plainOps() const {
  const std::string base = outputNames_.empty() ? type_ : outputNames_.front();
  return PlainOps(importer_, graph(), graph().addScope(scope_.prefix + base), settings_);
}

// ---- rules --------------------------------------------------------------------------------------

const std::map<std::pair<std::string, std::string>, ImportRule> &importRules() {
  static const auto kRules = [] {
    std::map<std::pair<std::string, std::string>, ImportRule> table;
    for (const auto &rules : {mathRules(),
                              shapeRules(),
                              constantRules(),
                              normRules(),
                              spatialRules(),
                              controlRules(),
                              loopRules(),
                              ngramRules(),
                              nnRules(),
                              graphcoreRules(),
                              recurrentRules(),
                              resizeRules(),
                              graphcoreCompositionRules(),
                              microsoftRules(),
                              attentionRules(),
                              einsumRules(),
                              transformerRules(),
                              samplingRules(),
                              sequenceRules(),
                              staticSequenceRules(),
                              selectionRules(),
                              fourierRules(),
                              quantisedRules(),
                              previewTrainingRules(),
                              machineLearningRules(),
                              supportVectorRules(),
                              scanRules(),
                              packedDataRules(),
                              gradientRules(),
                              determinantRules()})
      for (const ImportRule &rule : rules) table[{rule.domain, rule.type}] = rule;
    return table;
  }();
  return kRules;
}

ImportFn findImportRule(const std::string &domain, const std::string &type) {
  const auto found = importRules().find({domain, type});
  return found == importRules().end() ? nullptr : found->second.import;
}

void checkNames(const NodeContext &node, const ImportRule &rule) {
  if (rule.check == NameCheck::None) return;
  const auto list = [](const char *text) {
    std::istringstream words(text);
    return std::vector<std::string>{std::istream_iterator<std::string>(words), {}};
  };
  const std::vector<std::string> inputs = list(rule.names.inputs), outputs = list(rule.names.outputs),
                                 attributes = list(rule.names.attributes);
  const auto most = [](const std::vector<std::string> &names) { return static_cast<int>(names.size()); };
  node.require(rule.check == NameCheck::Variadic || node.inputCount() <= most(inputs),
               "too many inputs: got {}, expected at most {}: {}", node.inputCount(), most(inputs), inputs);
  node.require(node.outputCount() <= most(outputs), "too many outputs: got {}, expected at most {}: {}",
               node.outputCount(), most(outputs), outputs);
  if (node.importer().options().unknownAttributes == UnknownAttributes::Drop) return;
  for (const auto &[name, value] : node.nodeAttributes().values.entries())
    node.require(std::ranges::find(attributes, name) != attributes.end(),
                 "unknown attribute '{}': expected one of {}{}", name, attributes, nearestText(name, attributes));
}

void importByRule(NodeContext &node) {
  const auto rule = importRules().find({node.domain(), node.type()});
  if (rule == importRules().end()) return importRegular(node);
  checkNames(node, rule->second);
  rule->second.import(node);
}

namespace {

AttributeValue constantAsAttribute(const NodeContext &node, int input, const AttributeDef &attribute) {
  switch (attribute.type) {
    case AttributeType::Ints:
      return node.constantInts(input);
    case AttributeType::Int: {
      const std::vector<int64_t> values = node.constantInts(input);
      node.require(values.size() == 1, "input {} must hold one integer: got {}", input, node.constant(input).info());
      return values.front();
    }
    case AttributeType::Float:
      return static_cast<float>(node.constantNumber(input));
    case AttributeType::Floats: {
      const std::vector<double> values = node.constant(input).asDoubles();
      return std::vector<float>(values.begin(), values.end());
    }
    case AttributeType::Tensor:
      return node.constant(input);
    default:
      throw internal_error("attribute '{}' cannot come from a tensor", attribute.name);
  }
}

// Domains of layouts that ONNX Runtime chooses for the current processor.
bool isInternalLayout(const std::string &domain) {
  return domain == "com.microsoft.nchwc" || domain == "com.ms.internal.nhwc";
}

std::string unsupportedText(const NodeContext &node) {
  if (isInternalLayout(node.domain()))
    return "ONNX Runtime writes it when it saves a model optimized at level 'all' or 'layout', for one processor. "
           "Save the model at level 'extended' (ORT_ENABLE_EXTENDED)";
  if (const char *reason = microsoftRefusal(node.domain(), node.type())) return reason;
  std::vector<std::string> known;
  for (const auto &[name, rule] : importRules())
    if (name.first == node.domain()) known.push_back(name.second);
  for (const OpDef *def : allOpDefs())
    for (const OnnxName &name : def->onnxNames())
      if (name.domain == node.domain()) known.push_back(name.type);
  if (known.empty())
    return ". No operator of this domain is known: load the library that defines it first, or replace the node";
  return nearestText(node.type(), known, "supported operators");
}

// Builders write an empty list if an attribute with a default is omitted.
void dropEmptyLists(const std::string &type, Attributes &attributes) {
  std::vector<const char *> names = {"perm",         "pads",           "strides",      "dilations",
                                     "kernel_shape", "output_padding", "output_shape", "steps"};
  if (type == "Squeeze" || type == "Slice") names.push_back("axes");
  for (const char *name : names) {
    const AttributeValue *value = attributes.find(name);
    const auto *list = value ? std::get_if<std::vector<int64_t>>(value) : nullptr;
    if (list && list->empty()) attributes.erase(name);
  }
}

// Operands that must have one type, but have INT32 and INT64, are converted to INT32.
void narrowMixedIntegers(NodeContext &node, const OpDef &def, std::vector<TensorIndex> &inputs) {
  const auto variable = [&](size_t i) {
    return def.inputs().empty() ? std::string() : def.inputs()[std::min(i, def.inputs().size() - 1)].typeVar;
  };
  const auto has = [&](size_t i, DataType type) {
    return inputs[i].valid() && node.graph().info(inputs[i]).dataType() == type;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!has(i, DataType::INT64) || variable(i).empty()) continue;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (variable(k) == variable(i) && has(k, DataType::INT32)) {
        inputs[i] = node.emit("Cast", {inputs[i]}, {{"to", int64_t{toOnnxDataType(DataType::INT32)}}});
        break;
      }
  }
}

}  // namespace

bool followsPopart(const NodeContext &node) {
  constexpr int64_t kNewestOpset = 11;
  return node.domain() == "ai.onnx" && node.opset() <= kNewestOpset;
}

void importRegularAs(NodeContext &node, const OpDef &def) {
  Attributes attributes = node.attributes();
  attributes.erase("consumed_inputs");
  dropEmptyLists(node.type(), attributes);
  std::vector<TensorIndex> inputs;
  for (int i = 0; i < node.inputCount(); ++i) {
    const auto &rules = def.constInputs();
    auto rule = std::find_if(rules.begin(), rules.end(), [&](const ConstInputDef &c) {
      return c.index == i && c.since <= static_cast<OpVersion>(node.opset());
    });
    if (rule == rules.end()) {
      inputs.push_back(node.optionalIn(i));
    } else if (node.hasIn(i)) {
      const AttributeDef *attribute = def.findAttribute(rule->attribute);
      if (!attribute) throw internal_error("{}: input {} names unknown attribute '{}'", def.type(), i, rule->attribute);
      attributes.set(rule->attribute, constantAsAttribute(node, i, *attribute));
    }
  }
  if (followsPopart(node)) {
    if (def.findAttribute("index_type")) attributes.set("index_type", int64_t{toOnnxDataType(DataType::INT32)});
    narrowMixedIntegers(node, def, inputs);
  }
  node.results(def.type(), inputs, std::move(attributes));
}

void importRegular(NodeContext &node) {
  const OpDef *def = findOnnxOp(node.domain(), node.type(), static_cast<OpVersion>(node.opset()));
  const bool isCustom = node.domain() != "ai.onnx" && node.domain() != "ai.graphcore";
  if (!def && isCustom)  // models record version 1 (recordedVersion of builder.hpp), libraries any
    def = findOnnxOp(node.domain(), node.type(), std::numeric_limits<OpVersion>::max());
  if (!def)
    throw unsupported_operator("operator {}.{} of version {} is not supported{}", node.domain(), node.type(),
                               node.opset(), unsupportedText(node));
  importRegularAs(node, *def);
}

}  // namespace popart::onnx
