// Queries about operators, answered from the catalog's rows and the import rules.
#include "api/supported_operations.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include <popart/error.hpp>

#include "onnx/importer.hpp"
#include "onnx/operator_table.hpp"

namespace popart {
namespace {

std::vector<DataType> typesOf(TypeSet set) {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypeCount; ++i)
    if (set & typeBit(static_cast<DataType>(i))) types.push_back(static_cast<DataType>(i));
  return types;
}

bool isInternal(const OpDef &def) {
  return def.has(Trait::Internal) || def.has(Trait::Gradient) || def.isInplaceVariant();
}

// Calls f(identifier, row) for each name and version of each row.
template <class F>
void forEachIdentifier(F &&f) {
  for (const OpDef *def : allOpDefs()) {
    for (OpVersion version : def->versions()) f(OperatorIdentifier(def->domain(), def->type(), version), *def);
    for (const OnnxName &name : def->onnxNames())
      for (OpVersion version : name.versions) f(OperatorIdentifier(name.domain, name.type, version), *def);
  }
}

// Calls f(identifier, rule) for each version of each operator that an import rule makes available to models.
template <class F>
void forEachRule(F &&f) {
  for (const auto &[name, rule] : onnx::importRules()) {
    const std::vector<OpVersion> standard =
        name.first == "ai.onnx" ? onnx::onnxVersions(name.second) : std::vector<OpVersion>();
    for (OpVersion version : standard.empty() ? rule.versions : standard)
      f(OperatorIdentifier(name.first, name.second, version), rule);
  }
}

std::vector<std::string> wordsOf(const char *text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

SupportedOperation writtenWithOthers(const onnx::ImportRule &rule) {
  const bool standard = rule.domain == std::string_view("ai.onnx") && rule.names.outputs[0] == '\0';
  const onnx::OperatorNames names = standard ? onnx::onnxNames(rule.type) : rule.names;
  SupportedOperation result;
  for (const std::string &name : wordsOf(names.inputs)) result.inputs.push_back({name, typesOf(kAllTypes), false});
  for (const std::string &name : wordsOf(names.outputs)) result.outputs.push_back({name, typesOf(kAllTypes), false});
  for (const std::string &name : wordsOf(names.attributes)) result.attributes[name] = {"*"};
  return result;
}

}  // namespace

std::vector<OperatorIdentifier> supportedOperations(bool includeInternal) {
  std::set<OperatorIdentifier> ids;
  forEachIdentifier([&](const OperatorIdentifier &id, const OpDef &def) {
    if (includeInternal || !isInternal(def)) ids.insert(id);
  });
  forEachRule([&](const OperatorIdentifier &id, const onnx::ImportRule &) { ids.insert(id); });
  return {ids.begin(), ids.end()};
}

std::vector<OperatorIdentifier> unsupportedOperations(int64_t opset) {
  check(opset >= 1 && opset <= onnx::newestOnnxOpset(),
        "getUnsupportedOperations: there is no such ai.onnx operator set: got {}, expected 1 to {}", opset,
        onnx::newestOnnxOpset());
  std::vector<OperatorIdentifier> result;
  for (const onnx::OnnxOperator &op : onnx::onnxOperators(opset))
    if (!findOnnxOp("ai.onnx", op.type, static_cast<OpVersion>(opset)) && !onnx::findImportRule("ai.onnx", op.type))
      result.emplace_back("ai.onnx", op.type, op.since);
  return result;
}

SupportedOperation supportedOperation(const OperatorIdentifier &opid) {
  const OpDef *row = nullptr;
  forEachIdentifier([&](const OperatorIdentifier &id, const OpDef &def) {
    if (id == opid) row = &def;
  });
  const onnx::ImportRule *written = nullptr;
  forEachRule([&](const OperatorIdentifier &id, const onnx::ImportRule &rule) {
    if (id == opid) written = &rule;
  });
  if (!row && written) return writtenWithOthers(*written);
  if (!row) throw error("operator {}: not supported. getSupportedOperations lists those that are", opid);
  SupportedOperation result;
  for (size_t i = 0; i < row->inputs().size(); ++i) {
    const InputDef &input = row->inputs()[i];
    const bool constant = std::ranges::any_of(row->constInputs(), [&](const ConstInputDef &c) {
      return c.index == static_cast<int>(i) && c.since <= opid.version;
    });
    result.inputs.push_back({input.name, typesOf(input.types), constant});
  }
  for (const OutputDef &output : row->outputs()) result.outputs.push_back({output.name, typesOf(kAllTypes), false});
  for (const AttributeDef &attribute : row->attributes()) result.attributes[attribute.name] = {"*"};
  return result;
}

}  // namespace popart
