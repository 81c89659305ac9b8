// The table of operators that import rules compose, and the slots of rows.
#include "onnx/training/operand_slots.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "onnx/operator_table.hpp"

namespace popart::onnx {
namespace {

constexpr int kAll = -1;  // every operand

// Operands by number. Operands that are not named are of the kind Operand.
struct OperandSlots {
  std::vector<int> parameters = {}, statistics = {}, settings = {}, carried = {};
  // Operands that no gradient reaches; not given: those that are attributes of the row.
  std::optional<std::vector<int>> withoutGradient = {};
};
using Table = std::map<std::pair<std::string_view, std::string_view>, OperandSlots>;

OperandSlots parameters(std::vector<int> inputs) { return {.parameters = std::move(inputs)}; }
OperandSlots settings(std::vector<int> inputs) { return {.settings = std::move(inputs)}; }
OperandSlots settingsWithoutGradient(std::vector<int> inputs) {
  return {.settings = inputs, .withoutGradient = inputs};
}
OperandSlots carried(std::vector<int> settings = {}) { return {.settings = std::move(settings), .carried = {0}}; }

// Operators of ai.onnx. Initial states of recurrent operators are values of a sequence, not parameters.
void addOnnx(Table &table) {
  const auto add = [&](const char *type, OperandSlots slots) { table[{"ai.onnx", type}] = std::move(slots); };
  for (const char *type : {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Cast", "Expand",
                           "Slice", "Split", "Tile", "DepthToSpace", "SpaceToDepth", "Trilu", "CenterCropPad",
                           "ReverseSequence", "Compress", "Optional", "OptionalGetElement"})
    add(type, carried());
  add("CastLike", carried({1}));
  add("Dropout", carried({1}));
  add("Pad", {.settings = {2}, .carried = {0}, .withoutGradient = std::vector<int>()});
  add("QuantizeLinear", carried({1, 2}));
  add("DequantizeLinear", carried({1, 2}));
  add("Gemm", parameters({0, 1, 2}));
  add("Einsum", parameters({kAll}));
  add("ConvTranspose", parameters({1, 2}));
  add("DeformConv", parameters({1, 3}));
  add("CausalConvWithState", parameters({1, 2}));
  add("GroupNormalization", parameters({1, 2}));
  add("LayerNormalization", parameters({1, 2}));  // also before version 17, as ONNX Runtime's optimizer writes it
  add("SimplifiedLayerNormalization", parameters({1}));
  add("Attention", {.parameters = {0, 1, 2}, .settings = {3}});
  add("LinearAttention", parameters({0, 1, 2}));
  for (const char *type : {"RNN", "GRU"}) add(type, parameters({1, 2, 3}));
  add("LSTM", parameters({1, 2, 3, 7}));
  add("Clip", {.settings = {1, 2}, .withoutGradient = std::vector<int>()});
  add("Resize", settings({1, 2}));
  add("Upsample", settings({1}));
  add("Range", settingsWithoutGradient({kAll}));
  add("STFT", settings({2}));
  add("MelWeightMatrix", settings({kAll}));
  add("RotaryEmbedding", settings({1, 2}));
  add("SoftmaxCrossEntropyLoss", settingsWithoutGradient({2}));
  add("NegativeLogLikelihoodLoss", settingsWithoutGradient({2}));
  add("NonMaxSuppression", settings({kAll}));
  add("TensorScatter", settings({0}));
}

// Operators of ai.graphcore.
void addGraphcore(Table &table) {
  const auto add = [&](const char *type, OperandSlots slots) { table[{"ai.graphcore", type}] = std::move(slots); };
  for (const char *type : {"Reshape", "Nop", "Reverse", "Subsample", "TensorRemap", "DynamicSlice", "ShapedDropout"})
    add(type, carried());
  add("SplineWeighting", parameters({1}));
  add("LSTM", parameters({1, 2}));
  add("NormalizeImage", settings({1, 2}));
}

// Operators that ONNX Runtime's tools write, according to its documentation of contrib operators.
void addMicrosoft(Table &table) {
  const auto add = [&](const char *type, OperandSlots slots) { table[{"com.microsoft", type}] = std::move(slots); };
  for (const char *type : {"FusedConv", "BiasSplitGelu", "NhwcFusedConv"}) add(type, parameters({1, 2}));
  add("FusedMatMul", parameters({0, 1}));
  add("FusedMatMulActivation", parameters({0, 1}));
  add("TransposeMatMul", parameters({0, 1}));
  add("FusedGemm", parameters({0, 1, 2}));
  add("GemmFastGelu", parameters({1, 2}));
  for (const char *type : {"BiasGelu", "FastGelu", "BiasAdd", "BiasDropout"}) add(type, parameters({1}));
  add("SkipLayerNormalization", parameters({2, 3, 4}));
  add("SkipSimplifiedLayerNormalization", parameters({2, 3}));
  add("EmbedLayerNormalization", parameters({2, 3, 4, 5, 6}));
  for (const char *type : {"GroupNorm", "SkipGroupNorm"}) add(type, parameters({1, 2}));
  table[{"com.microsoft", "SkipGroupNorm"}].parameters = {1, 2, 4};
  for (const char *type : {"Attention", "PackedAttention", "DecoderMaskedSelfAttention"})
    add(type, {.parameters = {1, 2}, .settings = {5}});
  add("MultiHeadAttention", {.parameters = {0, 1, 2, 3}, .settings = {5}});
  add("GroupQueryAttention", {.parameters = {0, 1, 2}, .settings = {7, 8}});
  add("RotaryEmbedding", settings({2, 3}));
  add("ConvTransposeWithDynamicPads", parameters({1, 3}));
  add("QuantizeLinear", carried({1, 2}));
  add("DequantizeLinear", carried({1, 2}));
  add("DynamicQuantizeMatMul", {.parameters = {4}, .settings = {2, 3}});
  add("MatMulIntegerToFloat", {.parameters = {6}, .settings = {2, 3, 4, 5}});
  add("MatMulNBits", {.parameters = {5}, .settings = {2, 3}});
  for (const char *type : {"QGemm", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat",
                           "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax", "QLinearWhere",
                           "QAttention", "GatherBlockQuantized", "CropAndResize"})
    add(type, settings({kAll}));
  add("Range", settingsWithoutGradient({kAll}));
  add("ExpandDims", carried());
  add("Trilu", carried());
  add("Pad", carried({2}));
  add("NhwcMaxPool", {});
}

const Table &table() {
  static const Table kTable = [] {
    Table all;
    addOnnx(all);
    addGraphcore(all);
    addMicrosoft(all);
    return all;
  }();
  return kTable;
}

bool has(const std::vector<int> &inputs, int input) {
  return std::ranges::find(inputs, input) != inputs.end() || std::ranges::find(inputs, kAll) != inputs.end();
}

const OpDef *rowOf(const FlatNode &node) {
  const bool isCustom = node.domain != "ai.onnx" && node.domain != "ai.graphcore";
  return findOnnxOp(node.domain, node.type,
                    isCustom ? std::numeric_limits<OpVersion>::max() : static_cast<OpVersion>(node.opset));
}

// The operand of the row for an ONNX operand; -1: it is an attribute.
int operandOfRow(const OpDef &row, const FlatNode &node, int input) {
  int operand = input;
  for (const ConstInputDef &c : row.constInputs()) {
    if (c.since > static_cast<OpVersion>(node.opset)) continue;
    if (c.index == input) return -1;
    if (c.index < input) --operand;
  }
  return operand;
}

// Elements are looked up in operand 0.
bool looksUp(const FlatNode &node) {
  return isOneOf(node.type, {"Gather", "GatherElements", "GatherND", "GroupedGather"});
}

}  // namespace

Reading readingOf(const FlatNode &node, int input) {
  if (node.type == kJoin) return Reading::Carried;
  if (node.type == kState) return Reading::Operand;
  if (input == 0 && looksUp(node)) return Reading::Looked;
  if (const auto found = table().find({node.domain, node.type}); found != table().end()) {
    const OperandSlots &slots = found->second;
    if (has(slots.carried, input)) return Reading::Carried;
    if (has(slots.parameters, input)) return Reading::Parameter;
    if (has(slots.statistics, input)) return Reading::Statistic;
    return has(slots.settings, input) ? Reading::Setting : Reading::Operand;
  }
  const OpDef *row = rowOf(node);
  if (!row) return Reading::Operand;
  const int operand = operandOfRow(*row, node, input);
  if (operand < 0 || row->cutsGradient()) return Reading::Setting;
  if (row->has(Trait::View) && operand == 0) return Reading::Carried;
  switch (row->slot(operand)) {
    case Slot::Parameter:
      return Reading::Parameter;
    case Slot::Statistic:
      return Reading::Statistic;
    case Slot::Setting:
      return Reading::Setting;
    case Slot::Operand:
      break;
  }
  return Reading::Operand;
}

bool hasNoGradient(const FlatNode &node, int input) {
  const auto found = table().find({node.domain, node.type});
  if (found != table().end() && found->second.withoutGradient) return has(*found->second.withoutGradient, input);
  const OpDef *row = rowOf(node);
  return row && operandOfRow(*row, node, input) < 0;
}

bool isKnownOperator(const FlatNode &node) {
  return node.domain == "ai.onnx" || node.domain == "ai.graphcore" || node.domain.empty() ||
         table().contains({node.domain, node.type});
}

bool mixesPositions(const FlatNode &node) {
  const std::string_view type = node.type;
  return type.starts_with("Reduce") || type.find("Softmax") != std::string_view::npos;
}

bool isWriting(const FlatNode &node) { return isOneOf(node.type, {"Scatter", "ScatterElements", "ScatterND"}); }

bool isPart(const FlatNode &node, int input) {
  const std::string_view type = node.type;
  if (type == "Concat") return true;
  if (type == "Where") return input > 0;
  return isWriting(node) && (input == 0 || input == 2);
}

std::string operandName(const FlatNode &node, int input) {
  std::string names = node.domain == "ai.onnx" ? onnxNames(node.type).inputs : "";
  std::istringstream words(names);
  std::string word;
  for (int i = 0; words >> word; ++i)
    if (i == input) return word;
  if (const OpDef *row = rowOf(node); row && input < static_cast<int>(row->inputs().size()))
    return row->inputs()[static_cast<size_t>(input)].name;
  return std::to_string(input);
}

}  // namespace popart::onnx
