// Which instructions of the element-wise engine compute which operators: the OPERATOR rows of element_ops.inc.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <popart/op.hpp>

#include "backends/cpu/vector/element_ops.hpp"

namespace popart::cpu {

// An operator whose first operand has form `form`. Operators of two operands take any number of operands, from left to
// right.
struct ElementRow {
  const char *type;
  RegisterForm form;
  int operands;
  ElementOp op;
  std::array<const char *, 2> parameters;  // attributes, in the instruction's order; nullptr: none
};

std::span<const ElementRow> elementRows();
// nullptr if there is none.
const ElementRow *findElementRow(std::string_view type, RegisterForm form);

// The row that computes `op` if its first operand has element type `type`. nullptr and a reason if there is none.
const ElementRow *elementRowOf(const Op &op, DataType type, std::string &reason);
// The instruction's parameters from the attributes of `op`. An absent bound of Clip is infinite.
std::array<float, 2> elementParameters(const ElementRow &row, const Op &op);

}  // namespace popart::cpu
