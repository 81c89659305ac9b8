// The meaning of an operand of an ONNX node for training. Operators that are rows of the catalog state it in the row
// (OpDef::slots); those that an import rule composes have a line in the table of operand_slots.cpp.
#pragma once
#include <popart/opdef.hpp>

#include "onnx/training/flat_model.hpp"

namespace popart::onnx {

// How the value of an operand is used.
enum class Reading : uint8_t {
  Operand,    // as Slot says
  Parameter,  // as Slot says
  Statistic,  // as Slot says
  Setting,    // as Slot says; also operands of operators without a gradient
  Carried,    // output 0 (every output of Split) has its elements: views, Transpose, Cast, Slice, Q/DQ …
  Looked,     // a table whose rows are looked up: Parameter, or Carried if the rows are factors
};

// For operand `input` of `node`; Operand for operators that this library does not have.
Reading readingOf(const FlatNode &node, int input);
// Whether no gradient reaches the operand: it is read when the program is built, or the operator has none for it.
bool hasNoGradient(const FlatNode &node, int input);
// Whether this library has the operator.
bool isKnownOperator(const FlatNode &node);
// Whether the operator is a softmax or a reduction.
bool mixesPositions(const FlatNode &node);
// Whether the node writes elements into operand 0: the Scatter family.
bool isWriting(const FlatNode &node);
// Whether the result contains unchanged elements of that operand and of other operands: the operands of Concat, the
// branches of Where, the data and updates of Scatter.
bool isPart(const FlatNode &node, int input);
// The name of the operand in the ONNX specification or the row, or its number.
std::string operandName(const FlatNode &node, int input);

}  // namespace popart::onnx
