#include "backends/cpu/element_table.hpp"

#include <limits>
#include <map>

#include <popart/opdef.hpp>

namespace popart::cpu {
namespace {

#define STRIP(...) __VA_ARGS__
constexpr ElementRow kRows[] = {
#define OPERATOR(type, form, operands, enumerator, parameters) \
  {type, RegisterForm::form, operands, ElementOp::enumerator, {STRIP parameters}},
#include "backends/cpu/vector/element_ops.inc"
};
#undef STRIP

}  // namespace

std::span<const ElementRow> elementRows() { return kRows; }

const ElementRow *findElementRow(std::string_view type, RegisterForm form) {
  static const auto rows = [] {
    std::map<std::pair<std::string_view, RegisterForm>, const ElementRow *> map;
    for (const ElementRow &row : kRows) map[{row.type, row.form}] = &row;
    return map;
  }();
  const auto it = rows.find({type, form});
  return it == rows.end() ? nullptr : it->second;
}

const ElementRow *elementRowOf(const Op &op, DataType type, std::string &reason) {
  const ElementRow *row = findElementRow(op.def().base().type(), registerForm(type));
  if (row) return row;
  reason = "there is no element-wise instruction for " + op.opType() + " of " + toText(type);
  return nullptr;
}

std::array<float, 2> elementParameters(const ElementRow &row, const Op &op) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<float, 2> values = {-kInfinity, kInfinity};
  for (size_t i = 0; i < 2; ++i) {
    const AttributeValue *value = row.parameters[i] ? op.attributes().find(row.parameters[i]) : nullptr;
    if (!value) continue;
    const auto *integer = std::get_if<int64_t>(value);
    values[i] = integer ? static_cast<float>(*integer) : std::get<float>(*value);
  }
  return values;
}

}  // namespace popart::cpu
