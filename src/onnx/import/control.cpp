// If, Loop and Call. Tensors that a body reads from outside become further inputs of its graph.
#include <popart/error.hpp>

#include "onnx/importer.hpp"
#include "onnx_proto/onnx.pb.h"
#include "ops/control/loops.hpp"

namespace popart::onnx {

Scope bodyScope(NodeContext &n) {
  Scope scope;
  scope.outer = &n.scope();
  scope.opsets = n.scope().opsets;
  scope.functionAttributes = n.scope().functionAttributes;
  scope.function = n.scope().function;
  return scope;
}

namespace {

std::string bodyName(const NodeContext &n, const char *part) {
  return (n.settings().name.empty() ? n.type() : n.settings().name) + "/" + part;
}

// A condition known when the graph is built: the branch replaces the node.
void inlineBranch(NodeContext &n, const char *branch) {
  std::vector<TensorId> ids;
  for (int i = 0; i < n.outputCount(); ++i) ids.push_back(n.hasOut(i) ? n.outputId(i) : TensorId());
  const std::string prefix = n.scope().prefix + bodyName(n, branch) + "/";
  const std::vector<TensorIndex> outputs = n.importer().inlineGraph(n.graphAttribute(branch), n.scope(), prefix, ids);
  n.require(static_cast<int>(outputs.size()) >= n.outputCount(),
            "{} has fewer outputs than the node: got {}, expected {}", branch, static_cast<int>(outputs.size()),
            n.outputCount());
  for (int i = 0; i < n.outputCount(); ++i) {
    if (!n.hasOut(i)) continue;
    if (n.graph().tensor(outputs[i]).id == ids[i])
      n.bind(i, outputs[i]);
    else
      n.resultTensor(i, outputs[i]);
  }
}

void importIf(NodeContext &n) {
  n.require(n.info(0).dataType() == DataType::BOOL && n.info(0).nelms() == 1, "condition must be one boolean: got {}",
            n.info(0));
  if (n.isConstant(n.in(0))) return inlineBranch(n, n.constantNumber(0) != 0 ? "then_branch" : "else_branch");
  std::vector<TensorIndex> inputs = {n.in(0)};
  Attributes attributes;
  for (const char *branch : {"then_branch", "else_branch"}) {
    Scope scope = bodyScope(n);
    const Graph &graph = n.importer().importBody(n.graphAttribute(branch), bodyName(n, branch), {}, scope);
    for (const auto &capture : scope.captures) inputs.push_back(capture.outer);
    attributes.set(branch, GraphRef{graph.id});
  }
  n.results("If", inputs, attributes);
}

// Whether the loop runs exactly as often as its trip count says.
bool runsToTheEnd(const NodeContext &n, const Graph &body) {
  return (!n.hasIn(1) || ops::isConstantTrue(n.graph(), n.in(1))) && ops::keepsRunning(body);
}

void importLoop(NodeContext &n) {
  std::vector<TensorInfo> infos = {TensorInfo(DataType::INT64, {}), TensorInfo(DataType::BOOL, {})};
  std::vector<TensorIndex> inputs = {n.optionalIn(0), n.optionalIn(1)};
  for (int i = 2; i < n.inputCount(); ++i) {
    infos.push_back(n.info(i));
    inputs.push_back(n.in(i));
  }
  const auto carried = static_cast<int64_t>(infos.size()) - 2;
  Scope scope = bodyScope(n);
  const Graph &body = n.importer().importBody(n.graphAttribute("body"), bodyName(n, "body"), infos, scope);
  n.require(static_cast<int64_t>(body.outputs().size()) > carried,
            "body must return the condition and {} carried values: got {} outputs", carried,
            static_cast<long>(body.outputs().size()));
  for (const auto &capture : scope.captures) inputs.push_back(capture.outer);
  Attributes attributes = {{"body", GraphRef{body.id}}, {"carried", carried}};
  if (n.hasIn(0) && n.isConstant(n.in(0))) attributes.set("trip_count", std::max<int64_t>(0, n.constantInt(0)));
  const bool scans = static_cast<int64_t>(body.outputs().size()) - 1 > carried;
  n.require(!scans || (attributes.hasAttribute("trip_count") && runsToTheEnd(n, body)),
            "has scan outputs but the number of iterations is not known when the graph is built. Make the trip count "
            "and the condition constants");
  n.results("Loop", inputs, attributes);
}

// ai.graphcore Call: the subgraph is the attribute `callee`.
void importCall(NodeContext &n) {
  std::vector<TensorIndex> inputs;
  std::vector<TensorInfo> infos;
  for (int i = 0; i < n.inputCount(); ++i) {
    inputs.push_back(n.in(i));
    infos.push_back(n.info(i));
  }
  n.require(n.graphAttribute("callee").input_size() == n.inputCount(),
            "the callee has another number of inputs: got {} for the node, expected {}", n.inputCount(),
            n.graphAttribute("callee").input_size());
  Scope scope = bodyScope(n);
  const Graph &callee = n.importer().importBody(n.graphAttribute("callee"), bodyName(n, "callee"), infos, scope);
  n.require(static_cast<int>(callee.outputs().size()) == n.outputCount(),
            "the callee has another number of outputs: got {} for the node, expected {}", n.outputCount(),
            static_cast<long>(callee.outputs().size()));
  for (const auto &capture : scope.captures) inputs.push_back(capture.outer);
  n.results("Call", inputs, {{"callee", GraphRef{callee.id}}});
}

}  // namespace

std::vector<ImportRule> controlRules() {
  return {{"ai.onnx", "If", importIf}, {"ai.onnx", "Loop", importLoop}, {"ai.graphcore", "Call", importCall}};
}

}  // namespace popart::onnx
