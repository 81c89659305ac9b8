// Metadata of torch.export: `pkg.torch.export.ExportedProgram.graph_signature` of the graph (its lists),
// `pkg.torch.export.graph_signature.InputSpec.kind` and `pkg.onnxscript.optimizer.folded_from` of values, and
// `pkg.torch.onnx.fx_node` of nodes.
#include "onnx/training/exporter_lists.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

constexpr std::string_view kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr std::string_view kKind = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr std::string_view kFoldedFrom = "pkg.onnxscript.optimizer.folded_from";
constexpr std::string_view kCall = "pkg.torch.onnx.fx_node";

template <class Message>
std::string_view metadata(const Message &message, std::string_view key) {
  for (const auto &entry : message.metadata_props())
    if (entry.key() == key) return entry.value();
  return {};
}

// The text between `before` and the next quote of that kind; empty if there is none. `rest` moves past it.
std::string quoted(std::string_view &rest, std::string_view before) {
  const size_t start = rest.find(before);
  if (start == std::string_view::npos) return {};
  const char quote = before.back();
  rest.remove_prefix(start + before.size());
  const size_t end = rest.find(quote);
  if (end == std::string_view::npos) return {};
  std::string text(rest.substr(0, end));
  rest.remove_prefix(end + 1);
  return text;
}

// Targets of one kind, from lines "p_fc_weight: PARAMETER target='fc.weight'" or, as older releases print it,
// "InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_fc_weight'), target='fc.weight', ...".
void readTargets(std::string_view signature, const std::string &kind, std::set<std::string> &targets) {
  for (const std::string &mark : {": " + kind + " ", "<InputKind." + kind}) {
    for (std::string_view rest = signature; rest.find(mark) != std::string_view::npos;) {
      rest.remove_prefix(rest.find(mark) + mark.size());
      if (const std::string target = quoted(rest, "target='"); !target.empty()) targets.insert(target);
    }
  }
}

// The names of a list that Python printed: "['w', 'val_1']".
std::set<std::string> namesOfList(std::string_view text) {
  std::set<std::string> names;
  while (!text.empty()) {
    const size_t single = text.find('\''), twofold = text.find('"');
    if (single == std::string_view::npos && twofold == std::string_view::npos) break;
    if (const std::string name = quoted(text, single < twofold ? "'" : "\""); !name.empty()) names.insert(name);
  }
  return names;
}

// Names that nodes outside the exported program read: nodes without metadata of a call.
template <class Nodes>
void readByOthers(const Nodes &nodes, std::set<std::string> &names) {
  for (const auto &node : nodes) {
    if (metadata(node, kCall).empty()) names.insert(node.input().begin(), node.input().end());
    for (const auto &a : node.attribute())
      if (a.has_g() && metadata(node, kCall).empty()) readByOthers(a.g().node(), names);
  }
}

// Whether the node belongs to a call of addcmul(beta, alpha, x) without a value, a factor with the default 1.
bool multipliesByOne(const onnx_proto::NodeProto &node) {
  const std::string_view call = metadata(node, kCall);
  return node.op_type() == "Mul" && call.find("target=torch.ops.aten.addcmul.") != std::string_view::npos &&
         call.find("kwargs = {})") != std::string_view::npos;
}

}  // namespace

ExporterLists exporterLists(const onnx_proto::GraphProto &graph) {
  ExporterLists lists;
  const std::string_view signature = metadata(graph, kSignature);
  readTargets(signature, "PARAMETER", lists.parameters);
  readTargets(signature, "BUFFER", lists.buffers);
  for (const auto &value : graph.value_info()) {
    const std::string_view kind = metadata(value, kKind);
    if (kind == "PARAMETER") lists.parameters.insert(value.name());
    if (kind == "BUFFER") lists.buffers.insert(value.name());
    if (const std::string_view from = metadata(value, kFoldedFrom); !from.empty())
      lists.foldedFrom[value.name()] = namesOfList(from);
  }
  if (!lists.any()) return {};
  for (const auto &node : graph.node())
    if (multipliesByOne(node)) lists.timesOne.insert(node.input().begin(), node.input().end());
  std::set<std::string> others;
  readByOthers(graph.node(), others);
  for (const auto &tensor : graph.initializer())
    if (!others.contains(tensor.name())) lists.ofProgram.insert(tensor.name());
  return lists;
}

namespace {

// "permute_1" -> "permute".
std::string_view functionOf(std::string_view name) {
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back()))) name.remove_suffix(1);
  while (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  return name;
}

}  // namespace

bool isNameOfMovedElements(const std::string &initializer) {
  static const std::set<std::string_view> kMoves = {
      "t",          "transpose",  "permute",  "view",    "reshape",   "unsqueeze",       "squeeze",          "numpy_t",
      "contiguous", "clone",      "alias",    "flatten", "unflatten", "movedim",         "swapaxes",         "adjoint",
      "view_as",    "reshape_as", "_to_copy", "to",      "flip",      "_unsafe_view",    "getitem",          "split",
      "chunk",      "select",     "slice",    "unbind",  "val",       "lift_fresh_copy", "split_with_sizes", "matrix_h",
      "mt"};
  return kMoves.contains(functionOf(initializer));
}

bool isNameOfPickedElements(const std::string &initializer) {
  static const std::set<std::string_view> kPicks = {"embedding", "index_select", "index", "gather", "take"};
  return kPicks.contains(functionOf(initializer));
}

bool isNameOfJoinedElements(const std::string &initializer) {
  static const std::set<std::string_view> kJoins = {"cat", "concat", "stack"};
  return kJoins.contains(functionOf(initializer));
}

bool isNameOfMoveOrItsOperand(const std::string &name) {
  static const std::set<std::string_view> kOperands = {"expand",    "detach",     "arange",    "scalar_tensor_default",
                                                       "zeros",     "ones",       "full",      "empty",
                                                       "eye",       "zeros_like", "ones_like", "full_like",
                                                       "new_zeros", "new_ones"};
  const bool isConstant = name.find("lifted_tensor") != std::string::npos || name.starts_with("_tensor_constant") ||
                          name.starts_with("int64_");
  return isNameOfMovedElements(name) || isNameOfPickedElements(name) || isNameOfJoinedElements(name) || isConstant ||
         kOperands.contains(functionOf(name));
}

bool isNameOfFloatFunction(const std::string &name) {
  // Without digits at the end, as in results of functionOf: expm1, log10.
  static const std::set<std::string_view> kFunctions = {"exp",
                                                        "expm",
                                                        "log",
                                                        "log1p",
                                                        "sqrt",
                                                        "rsqrt",
                                                        "sin",
                                                        "cos",
                                                        "tan",
                                                        "tanh",
                                                        "sinh",
                                                        "cosh",
                                                        "asin",
                                                        "acos",
                                                        "atan",
                                                        "sigmoid",
                                                        "softmax",
                                                        "_softmax",
                                                        "softplus",
                                                        "log_softmax",
                                                        "gelu",
                                                        "silu",
                                                        "elu",
                                                        "mish",
                                                        "leaky_relu",
                                                        "erf",
                                                        "reciprocal",
                                                        "matmul",
                                                        "mm",
                                                        "bmm",
                                                        "addmm",
                                                        "linear",
                                                        "relu",
                                                        "layer_norm",
                                                        "pow",
                                                        "hardtanh",
                                                        "logsigmoid",
                                                        "mean",
                                                        "linalg_vector_norm",
                                                        "norm",
                                                        "std",
                                                        "var",
                                                        "einsum",
                                                        "cosine_similarity"};
  return kFunctions.contains(functionOf(name));
}

std::set<std::string> updatedByTrainingInfo(const onnx_proto::ModelProto &model) {
  std::set<std::string> names;
  for (const auto &info : model.training_info())
    for (const auto &binding : info.update_binding()) names.insert(binding.key());
  return names;
}

}  // namespace popart::onnx
