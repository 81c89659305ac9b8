// Attributes keep their names; the row's ConstInputDefs say which of them are inputs of the ONNX operator.
#include "onnx/graph_writer.hpp"

#include <algorithm>

#include "onnx/operator_table.hpp"

namespace popart::onnx {
namespace {

struct Form {
  const OnnxName *name;
  OpVersion opset;
};

// ai.onnx at the newest operator set if the row has a name there; otherwise the first other domain.
Form formOf(const OpDef &def) {
  const OnnxName *found = nullptr;
  for (const OnnxName &name : def.onnxNames())
    if (!found || (name.domain == "ai.onnx" && found->domain != "ai.onnx")) found = &name;
  if (!found) return {nullptr, 0};
  return {found, found->domain == "ai.onnx" ? static_cast<OpVersion>(newestOnnxOpset()) : found->versions.back()};
}

bool hasRegularForm(const Op &op) {
  const OpDef &def = op.def();
  for (Trait t : {Trait::Call, Trait::Random, Trait::Loss, Trait::HostIo, Trait::Init, Trait::SideEffect,
                  Trait::VarUpdate, Trait::Metadata, Trait::Internal})
    if (def.has(t)) return false;
  for (const char *type : {"BatchNormalization", "Constant", "ConstantOfShape", "Range", "Dropout"})
    if (op.is(type)) return false;
  for (int i = 0; i < op.outputCount(); ++i)
    if (!op.hasOutput(i)) return false;
  // In rows, an empty list of axes means no axes; in ONNX it means all axes or no operation.
  if (op.hasAttr("axes") && op.attrInts("axes").empty()) return false;
  if (op.hasAttr("flatten")) return false;  // a softmax of ONNX 1 to 12
  return !op.isUserOp() && !def.isInplaceVariant();
}

// The value of a scalar attribute as a tensor of the op's element type.
std::optional<TensorData> numberLike(DataType type, float value) {
  switch (type) {
    case DataType::FLOAT:
      return TensorData::scalar<float>(value);
    case DataType::DOUBLE:
      return TensorData::scalar<double>(value);
    case DataType::INT32:
      return TensorData::scalar<int32_t>(static_cast<int32_t>(value));
    case DataType::INT64:
      return TensorData::scalar<int64_t>(static_cast<int64_t>(value));
    default:
      return std::nullopt;
  }
}

std::optional<TensorData> constantFor(const Op &op, const AttributeValue &value) {
  if (const auto *ints = std::get_if<std::vector<int64_t>>(&value))
    return TensorData::of<int64_t>({static_cast<int64_t>(ints->size())}, *ints);
  if (const auto *number = std::get_if<int64_t>(&value)) return TensorData::scalar<int64_t>(*number);
  if (const auto *number = std::get_if<float>(&value))
    return numberLike(op.hasInput(0) ? op.inInfo(0).dataType() : DataType::FLOAT, *number);
  if (const auto *tensor = std::get_if<TensorData>(&value)) return *tensor;
  return std::nullopt;
}

std::optional<BuilderAttribute> attributeFor(const AttributeValue &value) {
  return std::visit(
      [](const auto &v) -> std::optional<BuilderAttribute> {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, GraphRef>)
          return std::nullopt;
        else
          return v;
      },
      value);
}

}  // namespace

bool addNodeOf(ModelBuilder &builder, const Op &op, const std::vector<TensorId> &inputs) {
  const Form form = formOf(op.def());
  if (!form.name || !hasRegularForm(op)) return false;
  std::vector<std::pair<size_t, TensorData>> constants;
  BuilderAttributes attributes;
  for (const auto &[name, value] : op.attributes().entries()) {
    const auto &rules = op.def().constInputs();
    const auto rule = std::find_if(rules.begin(), rules.end(), [&, &key = name](const ConstInputDef &r) {
      return r.attribute == key && r.since <= form.opset;
    });
    if (rule != rules.end()) {
      const std::optional<TensorData> constant = constantFor(op, value);
      if (!constant) return false;
      constants.emplace_back(static_cast<size_t>(rule->index), *constant);
    } else {
      std::optional<BuilderAttribute> attribute = attributeFor(value);
      if (!attribute) return false;
      attributes.emplace_back(name, std::move(*attribute));
    }
  }
  // Since version 18 either attribute can state the number of pieces.
  if (op.is("Split") && !op.hasAttr("split") && !op.hasAttr("num_outputs"))
    attributes.emplace_back("num_outputs", int64_t{op.outputCount()});
  // The op's inputs after the position of an attribute come later in the node.
  std::vector<TensorId> operands = inputs;
  std::sort(constants.begin(), constants.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  for (const auto &[index, value] : constants) {
    const TensorId id = builder.addNode("ai.onnx", newestOnnxOpset(), "Constant", {}, 1, {{"value", value}}).front();
    if (operands.size() <= index) operands.resize(index + 1);
    if (operands[index].empty())
      operands[index] = id;
    else
      operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(index), id);
  }
  std::vector<TensorId> outputs;
  for (int i = 0; i < op.outputCount(); ++i) outputs.push_back(op.outId(i));
  builder.addNodeNamed(form.name->domain, form.opset, form.name->type, operands, outputs, attributes, op.name());
  return true;
}

}  // namespace popart::onnx
