// Which instructions of the element-wise engine compute which operators.
#pragma once
#include <span>
#include <string_view>

#include "backends/cpu/vector/element_ops.hpp"

namespace popart::cpu {

struct ElementRow {
  enum class Shape : uint8_t { Unary, Fold, Compare };
  const char *type;
  Shape shape;
  // By the form of the first operand; kCount: not computed.
  ElementOp floats = ElementOp::kCount, ints = ElementOp::kCount, masks = ElementOp::kCount;
  const char *parameters[2] = {nullptr, nullptr};  // attributes, in the instruction's order
  bool narrows = false;                            // the integer result wraps to its type
  bool isSigned = false;                           // not for UINT64
  bool swaps = false;                              // operands change places
  bool needsAlphaOne = false;                      // computed only when attribute alpha is 1
};

std::span<const ElementRow> elementRows();
// nullptr when there is none.
const ElementRow *findElementRow(std::string_view type);

}  // namespace popart::cpu
