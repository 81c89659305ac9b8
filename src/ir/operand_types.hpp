// Check of the element types of operands. Every operator is checked when it is made, except for those of PopXL
// programs, which sessions check (docs/decisions/0088).
#pragma once

namespace popart {

class Ir;
class Op;

// While one exists, operators that this thread makes are not checked.
class OperandTypesUnchecked {
 public:
  OperandTypesUnchecked();
  ~OperandTypesUnchecked();
  OperandTypesUnchecked(const OperandTypesUnchecked &) = delete;
  OperandTypesUnchecked &operator=(const OperandTypesUnchecked &) = delete;

 private:
  bool outer_;
};

// Throws popart::error that names the operator, the tensor and its type.
void checkOperandTypes(const Op &op);
void checkOperandTypes(const Ir &ir);

}  // namespace popart
