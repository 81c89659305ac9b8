// If and Call. Tensors that a body reads from outside become further inputs of its graph.
#include <algorithm>

#include <popart/error.hpp>

#include "onnx/importer.hpp"
#include "onnx_proto/onnx.pb.h"

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
  const std::vector<Meaning> outputs = n.importer().inlineGraph(n.graphAttribute(branch), n.scope(), prefix, ids);
  n.require(static_cast<int>(outputs.size()) >= n.outputCount(),
            "{} has fewer outputs than the node: got {}, expected {}", branch, static_cast<int>(outputs.size()),
            n.outputCount());
  for (int i = 0; i < n.outputCount(); ++i)
    if (n.hasOut(i)) n.resultMeaning(i, outputs[i]);
}

// "a tensor", "a sequence of 3", …: what both branches must agree about.
std::string kindOf(const Meaning &m) {
  if (m.sequence) return "a sequence of " + std::to_string(m.sequence->size());
  return m.tensor.valid() ? "a tensor" : "nothing";
}

// The tensors of sequences are outputs of the op one by one.
void branchResults(NodeContext &n, const std::vector<Meaning> &results, const std::vector<TensorIndex> &inputs,
                   const Attributes &attributes) {
  n.require(static_cast<int>(results.size()) >= n.outputCount(),
            "then_branch has fewer outputs than the node: got {}, expected {}", static_cast<int>(results.size()),
            n.outputCount());
  std::vector<TensorId> ids;
  for (size_t i = 0; i < results.size(); ++i) {
    const int output = static_cast<int>(i);
    const bool named = output < n.outputCount() && n.hasOut(output);
    if (results[i].tensor.valid()) ids.push_back(named ? n.outputId(output) : n.unusedId("If", output));
    for (size_t e = 0; results[i].sequence && e < results[i].sequence->size(); ++e)
      ids.push_back(n.importer().freshId(
          n.graph(), n.graph().addScope(n.scope().prefix + elementId(n.firstOutput() + "/branch", ids.size()))));
  }
  n.importer().addOp(n.graph(), "If", inputs, ids, attributes, n.settings());
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const int output = static_cast<int>(i);
    Meaning meaning = results[i];
    if (meaning.tensor.valid()) meaning.tensor = n.graph().find(ids[next++]);
    if (meaning.sequence)
      for (TensorIndex &element : *meaning.sequence) element = n.graph().find(ids[next++]);
    if (output >= n.outputCount() || !n.hasOut(output)) continue;
    n.resultMeaning(output, meaning);
  }
}

void importIf(NodeContext &n) {
  n.require(n.info(0).dataType() == DataType::BOOL && n.info(0).nelms() == 1, "condition must be one boolean: got {}",
            n.info(0));
  if (n.isConstant(n.in(0))) return inlineBranch(n, n.constantNumber(0) != 0 ? "then_branch" : "else_branch");
  std::vector<TensorIndex> inputs = {n.in(0)};
  Attributes attributes;
  std::vector<Meaning> results[2];
  for (const char *branch : {"then_branch", "else_branch"}) {
    Scope scope = bodyScope(n);
    std::vector<Meaning> &own = results[branch == std::string_view("else_branch")];
    const Graph &graph = n.importer().importBody(n.graphAttribute(branch), bodyName(n, branch), {}, scope, &own);
    for (const auto &capture : scope.captures) inputs.push_back(capture.outer);
    attributes.set(branch, GraphRef{graph.id});
  }
  for (size_t i = 0; i < std::min(results[0].size(), results[1].size()); ++i)
    n.requireKnown(kindOf(results[0][i]) == kindOf(results[1][i]),
                   "the branches give output {} as {} and {}, so that the condition must be known when the graph is "
                   "built. Make it a constant, or give both the same length",
                   static_cast<int64_t>(i), kindOf(results[0][i]), kindOf(results[1][i]));
  branchResults(n, results[0], inputs, attributes);
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

std::vector<ImportRule> controlRules() { return {{"ai.onnx", "If", importIf}, {"ai.graphcore", "Call", importCall}}; }

}  // namespace popart::onnx
