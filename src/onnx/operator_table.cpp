// Look-ups in the table that the build makes (see operator_table.hpp).
#include "onnx/operator_table.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>

namespace popart::onnx {
namespace {

constexpr size_t kMaxVersions = 16;

struct Row {
  std::string_view type;
  int minInputs, maxInputs, maxOutputs;
  std::array<int, kMaxVersions> versions;  // ascending, 0 after the last; negative: deprecated from there on
  OperatorNames names;
};

#include "onnx_operators.inc"

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
    int inForce = 0;
    for (int version : row.versions)
      if (version != 0 && std::abs(version) <= opset) inForce = version;
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

int64_t newestOnnxOpset() { return kNewest; }

}  // namespace popart::onnx
