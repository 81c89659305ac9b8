// ModelBuilder: adding nodes, with the checks at that time and the inference of their results.
#include <algorithm>

#include <fmt/format.h>
#include <popart/debugcontext.hpp>
#include <popart/error.hpp>
#include <popart/logging.hpp>
#include <popart/opdef.hpp>

#include "base/nearest.hpp"
#include "onnx/builder.hpp"
#include "onnx/builder_state.hpp"
#include "onnx/importer.hpp"
#include "onnx/operator_table.hpp"
#include "onnx/result_name.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {

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
      throw error("Builder: {}: input tensor '{}' does not exist{}", type, id,
                  nearestText(id, std::vector<std::string>(root().state_->names.begin(), root().state_->names.end())));
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

// For an operator of ai.graphcore that maps to its row one to one.
std::optional<OperatorArity> rowArity(const std::string &domain, const std::string &type, OpVersion version) {
  const OpDef *row = findImportRule(domain, type) ? nullptr : findOnnxOp(domain, type, version);
  if (!row || row->has(Trait::Random) || !row->constInputs().empty()) return std::nullopt;
  OperatorArity arity{0, 0, static_cast<int>(row->outputs().size())};
  for (const InputDef &input : row->inputs()) {
    if (input.arity == Arity::Required) ++arity.minInputs;
    arity.maxInputs = input.arity == Arity::Variadic || arity.maxInputs < 0 ? -1 : arity.maxInputs + 1;
  }
  for (const OutputDef &output : row->outputs())
    if (output.arity == Arity::Variadic) arity.maxOutputs = -1;
  return arity;
}

void requireArity(const std::string &domain, const std::string &type, OpVersion version,
                  const std::vector<TensorId> &inputs, size_t outputs) {
  std::optional<OperatorArity> arity;
  if (domain == "ai.onnx") {
    arity = findArity(type);
    // ONNX Runtime adds operators to ai.onnx: for these, an import rule with names does the checks.
    if (!arity && !findImportRule(domain, type)) {
      std::vector<std::string> known;
      for (const OnnxOperator &op : onnxOperators(newestOnnxOpset())) known.emplace_back(op.type);
      throw error("Builder: ai.onnx has no operator '{}'{}", type, nearestText(type, known));
    }
    if (arity && arity->maxInputs >= 0) arity->maxInputs += scaleInputs(type);
  } else if (domain == "ai.graphcore") {
    arity = rowArity(domain, type, version);
  }
  if (!arity) return;
  const auto in = static_cast<int>(inputs.size()), out = static_cast<int>(outputs);
  check(in >= arity->minInputs && (arity->maxInputs < 0 || in <= arity->maxInputs),
        "Builder: {}: wrong number of inputs: got {}, expected {} to {}", type, in, arity->minInputs,
        arity->maxInputs < 0 ? std::string("any number") : std::to_string(arity->maxInputs));
  const std::optional<OperatorForm> form = domain == "ai.onnx" ? findForm(type, version) : std::nullopt;
  for (int i = 0; i < arity->minInputs; ++i)
    check(!inputs[i].empty() || (form && form->isOptionalInput(i)),
          "Builder: {}: input {} is left out: got the empty name, expected one for each of the first {} inputs", type,
          i, arity->minInputs);
  check(arity->maxOutputs < 0 || out <= arity->maxOutputs, "Builder: {}: too many outputs: got {}, expected at most {}",
        type, out, arity->maxOutputs);
}

// For nodes of users only: programs that are written as models omit outputs that nothing reads.
void requireOutputs(const std::string &domain, const std::string &type, OpVersion version, int outputs) {
  if (domain != "ai.onnx") return;
  const std::optional<OperatorForm> form = findForm(type, version);
  check(!form || outputs >= form->minOutputs, "Builder: {}: too few outputs: got {}, expected at least {}", type,
        outputs, form ? form->minOutputs : 0);
}

}  // namespace

void checkArity(const onnx_proto::NodeProto &node, const std::map<std::string, int64_t> &opsets) {
  const std::string domain = domainName(node.domain());
  const auto version = opsets.find(domain);
  const std::vector<TensorId> inputs(node.input().begin(), node.input().end());
  if (version != opsets.end())
    requireArity(domain, node.op_type(), static_cast<OpVersion>(version->second), inputs,
                 static_cast<size_t>(node.output_size()));
}

std::vector<TensorId> ModelBuilder::addNode(const std::string &domain, int64_t opset, const std::string &type,
                                            const std::vector<TensorId> &inputs, int outputs,
                                            const BuilderAttributes &attributes, const std::string &debugName) {
  const std::vector<TensorId> known = knownInputs(type, inputs);
  requireArity(domainName(domain), type, static_cast<OpVersion>(opset), inputs,
               static_cast<size_t>(std::max(outputs, 0)));
  requireOutputs(domainName(domain), type, static_cast<OpVersion>(opset), outputs);
  requireAttributes(domainName(domain), type, static_cast<OpVersion>(opset), attributes);
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
  requireArity(domainName(domain), type, static_cast<OpVersion>(opset), inputs, outputIds.size());
  requireAttributes(domainName(domain), type, static_cast<OpVersion>(opset), attributes);
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
  std::set<std::string> given;
  for (const auto &[name, value] : attributes) {
    fillAttribute(*node.add_attribute(), name, value);
    given.insert(name);
  }
  for (const auto &[name, value] : scopeAttributes_)
    if (!given.count(name)) fillAttribute(*node.add_attribute(), name, value);
  // Without an input for the sizes, an attribute of Split gives the number of parts.
  const std::optional<OperatorForm> form =
      domainName(domain) == "ai.onnx" ? findForm(type, opset) : std::optional<OperatorForm>();
  if (form && form->hasAttribute("num_outputs") && known.size() == 1 && !given.count("num_outputs"))
    fillAttribute(*node.add_attribute(), "num_outputs", static_cast<int64_t>(outputIds.size()));
  const DebugInfo info(DebugContext(node.name(), SourceLocation()), "onnxbuilder");
  fillAttribute(*node.add_attribute(), kDebugInfoAttribute, static_cast<int64_t>(info.getId()));
  logging::builder::trace("added {}.{}:{} '{}': {} -> {}", domainName(domain), type, opset, node.name(), known,
                          outputIds);
  inferLastNode();
}

void ModelBuilder::removeLastNode() {
  State &s = *state_;
  for (const auto &output : s.graph->node(s.graph->node_size() - 1).output()) {
    root().state_->names.erase(output);
    s.tensors.erase(output);
    s.producer.erase(output);
    s.scope.refusals.erase(output);
    s.scope.tensors.erase(output);
  }
  s.graph->mutable_node()->RemoveLast();
}

// The problem if a user's operator returns fewer results than its node has; empty: none.
std::string ModelBuilder::missingResult(const onnx_proto::NodeProto &node) const {
  const State &s = *state_;
  for (int i = 0; i < node.output_size(); ++i) {
    const auto found = s.scope.tensors.find(node.output(i));
    if (found == s.scope.tensors.end() || !found->second.valid() || s.scope.graph->info(found->second).isSet())
      continue;
    return fmt::format("{} '{}': wrong number of outputs: got {}, expected {}", node.op_type(), node.name(),
                       node.output_size(), i);
  }
  return {};
}

void ModelBuilder::inferLastNode() {
  State &s = *state_;
  const auto &node = s.graph->node(s.graph->node_size() - 1);
  s.scope.opsets = root().state_->opsets;
  s.scope.producers.reset();  // there is one more node
  const Refusal refusal = root().state_->importer->tryImportNode(node, s.scope);
  const std::string fault = refusal.text.empty() ? missingResult(node) : refusal.text;
  if (!fault.empty() && !inferAsTruthValues() && !inferWithoutChecks()) {
    // Other nodes are refused when the program is built: values that determine shapes, and operators, may be known
    // then.
    if (refusal.reason != Refusal::Reason::Node && refusal.reason != Refusal::Reason::None) return;
    removeLastNode();
    throw error("Builder: {}", fault);
  }
  for (const auto &output : node.output())
    if (!output.empty() && hasTensorInfo(output)) setInfo(*s.graph->add_value_info(), output, getTensorInfo(output));
}

// compat: shapes of And, Or, Xor and Not of other types than BOOL are inferred as for BOOL; sessions refuse them.
bool ModelBuilder::inferAsTruthValues() {
  State &s = *state_;
  const auto &node = s.graph->node(s.graph->node_size() - 1);
  const std::string domain = domainName(node.domain());
  const OpDef *row = findOnnxOp(domain, node.op_type(), static_cast<OpVersion>(s.scope.opsets[domain]));
  const auto takesTruth = [](const InputDef &input) { return input.types == kBool; };
  const auto known = [this](const std::string &id) { return hasTensorInfo(id); };
  if (!row || !row->has(Trait::Elementwise) || !std::ranges::all_of(row->inputs(), takesTruth) ||
      !std::ranges::all_of(node.input(), known))
    return false;
  const std::unordered_map<std::string, TensorIndex> tensors = s.scope.tensors;
  Importer &importer = *root().state_->importer;
  for (const auto &input : node.input())
    s.scope.tensors[input] = s.scope.graph->addStream(importer.freshId(*s.scope.graph, input),
                                                      TensorInfo(DataType::BOOL, getTensorInfo(input).shape()));
  const bool inferred = importer.tryImportNode(node, s.scope).text.empty();
  for (const auto &input : node.input()) {
    const auto before = tensors.find(input);
    if (before == tensors.end())
      s.scope.tensors.erase(input);
    else
      s.scope.tensors[input] = before->second;
  }
  if (inferred)
    for (const auto &output : node.output()) s.scope.refusals.erase(output);
  return inferred;
}

namespace {

constexpr int64_t kNoReduction = 2;  // ReductionType::NoReduction

bool keepsElements(const onnx_proto::NodeProto &node) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == "reduction") return attribute.i() == kNoReduction;
  return false;
}

// The result of an operator whose operands are not compared when it is added; nullopt for others.
std::optional<TensorInfo> uncheckedResult(const onnx_proto::NodeProto &node, const std::vector<TensorInfo> &inputs) {
  const std::string &type = node.op_type();
  if (type == "Nll" && inputs.size() == 2)
    return TensorInfo(inputs[0].dataType(), keepsElements(node) ? inputs[1].shape() : Shape{});
  if (type == "Ctc" && !inputs.empty() && inputs[0].rank() == 3)
    return TensorInfo(inputs[0].dataType(), keepsElements(node) ? Shape{inputs[0].shape()[1]} : Shape{});
  if (type == "DynamicUpdate" && !inputs.empty()) return inputs[0];
  return std::nullopt;
}

}  // namespace

// compat: losses and updates of slices get a shape although their operands do not match; sessions refuse them.
bool ModelBuilder::inferWithoutChecks() {
  State &s = *state_;
  const auto &node = s.graph->node(s.graph->node_size() - 1);
  if (node.domain() != "ai.graphcore" || node.output_size() < 1) return false;
  std::vector<TensorInfo> inputs;
  for (const auto &input : node.input()) {
    if (!hasTensorInfo(input)) return false;
    inputs.push_back(getTensorInfo(input));
  }
  const std::optional<TensorInfo> result = uncheckedResult(node, inputs);
  if (!result) return false;
  const std::string &id = node.output(0);
  s.scope.tensors[id] = s.scope.graph->addStream(root().state_->importer->freshId(*s.scope.graph, id), *result);
  s.scope.refusals.erase(id);
  return true;
}

std::vector<TensorId> ModelBuilder::checkpointOutput(const std::vector<TensorId> &ids) {
  std::vector<TensorId> results;
  for (const auto &id : ids) {
    BuilderAttributes attributes = {{"__recompute_output_in_backward_pass", int64_t{1}},  // RecomputeType::Checkpoint
                                    {"__exclude_patterns", std::vector<std::string>{"PreUniRepl", "PostNRepl"}}};
    const auto saved = scopeAttributes_;
    for (const auto &entry : attributes) scopeAttributes_.erase(entry.first);
    results.push_back(addNode("ai.onnx", spokenOpset(), "Identity", {id}, 1, attributes).front());
    scopeAttributes_ = saved;
  }
  return results;
}

int64_t ModelBuilder::spokenOpset() const { return opset("ai.onnx").value_or(root().spoken_); }

std::optional<int64_t> ModelBuilder::opset(const std::string &domain) const {
  const auto &opsets = root().state_->opsets;
  auto found = opsets.find(domainName(domain));
  return found == opsets.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

}  // namespace popart::onnx
