// Look-ups in the table that the build generates (see operator_table.hpp).
#include "onnx/operator_table.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace popart::onnx {
namespace {

constexpr size_t kMaxVersions = 16;

struct Row {
  std::string_view type;
  int minInputs, maxInputs, maxOutputs;
  std::array<int, kMaxVersions> versions;  // ascending, 0 after the last; negative: deprecated from there on
  OperatorNames names;
};

struct FormRow {
  std::string_view type;
  int since, minInputs, maxInputs, minOutputs, maxOutputs;
  std::string_view inputs, outputs, attributes;
};

#include "onnx_operators.inc"

// The version of an operator in the set: negative if it is deprecated, 0 if the set does not have it yet.
int versionInForce(const Row &row, int64_t opset) {
  int inForce = 0;
  for (int version : row.versions)
    if (version != 0 && std::abs(version) <= opset) inForce = version;
  return inForce;
}

// "name:kind", then "!" if it is required and "=default" if it has a default.
AttributeForm attributeFrom(std::string_view text) {
  AttributeForm attribute;
  const size_t colon = text.find(':'), end = text.find_first_of("!=", colon);
  attribute.name = text.substr(0, colon);
  attribute.kind = text.substr(colon + 1, end == text.npos ? end : end - colon - 1);
  attribute.required = end != text.npos && text[end] == '!';
  if (const size_t equals = text.find('=', colon); equals != text.npos)
    attribute.defaultValue = text.substr(equals + 1);
  return attribute;
}

const Row *findRow(std::string_view type) {
  const Row *row = std::ranges::lower_bound(kRows, type, {}, &Row::type);
  return row == std::end(kRows) || row->type != type ? nullptr : row;
}

}  // namespace

std::optional<OperatorArity> findArity(std::string_view type) {
  const Row *row = findRow(type);
  if (!row) return std::nullopt;
  return OperatorArity{row->minInputs, row->maxInputs, row->maxOutputs};
}

std::vector<OnnxOperator> onnxOperators(int64_t opset) {
  std::vector<OnnxOperator> result;
  for (const Row &row : kRows) {
    const int inForce = versionInForce(row, opset);
    if (inForce > 0) result.push_back({std::string(row.type), static_cast<OpVersion>(inForce)});
  }
  return result;
}

std::vector<OpVersion> onnxVersions(std::string_view type) {
  std::vector<OpVersion> versions;
  if (const Row *row = findRow(type))
    for (int version : row->versions)
      if (version > 0) versions.push_back(static_cast<OpVersion>(version));
  return versions;
}

OperatorNames onnxNames(std::string_view type) {
  const Row *row = findRow(type);
  return row ? row->names : OperatorNames{};
}

std::vector<AttributeForm> OperatorForm::attributes() const {
  std::vector<AttributeForm> found;
  for (size_t first = 0; first < attributeRow.size();) {
    const size_t end = std::min(attributeRow.find(' ', first), attributeRow.size());
    found.push_back(attributeFrom(attributeRow.substr(first, end - first)));
    first = end + 1;
  }
  return found;
}

bool OperatorForm::hasAttribute(std::string_view name) const {
  return std::ranges::any_of(attributes(), [&](const AttributeForm &a) { return a.name == name; });
}

bool OperatorForm::isOptionalInput(size_t index) const {
  std::string_view left = inputs;
  for (; index > 0; --index) left.remove_prefix(std::min(left.find(' '), left.size() - 1) + 1);
  return left.substr(0, left.find(' ')).ends_with('?');
}

std::optional<OperatorForm> findForm(std::string_view type, int64_t opset) {
  const Row *row = findRow(type);
  const int since = row ? versionInForce(*row, opset) : 0;
  if (since <= 0) return std::nullopt;
  const FormRow *f = std::ranges::lower_bound(kForms, std::pair(type, since), {},
                                              [](const FormRow &r) { return std::pair(r.type, r.since); });
  return OperatorForm{f->type,       static_cast<OpVersion>(since),
                      f->minInputs,  f->maxInputs,
                      f->minOutputs, f->maxOutputs,
                      f->inputs,     f->outputs,
                      f->attributes};
}

int64_t newestOnnxOpset() { return kNewest; }

}  // namespace popart::onnx
