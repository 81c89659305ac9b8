// The instruction set of the element-wise engine: functions over blocks of values in registers, compiled per
// instruction set.
//
// A register holds one block: floats (kFloat), 32-bit masks of all ones or all zeros (kMask) or integers of the
// tensor's type (kInt). If a tensor's own memory has the same form, it serves as the register.
// Invariant: element i of a result depends only on element i of the operands, so blocks may be split anywhere. A result
// may overwrite an operand of the same form.
#pragma once

#include <cstdint>

#include <popart/datatype.hpp>

namespace popart::cpu {

// in: up to three operands; an operand with one value for the whole block is a pointer to that value. Exactly `count`
// elements are read and written.
using ElementFn = void (*)(const void *const *in, void *out, int64_t count, const float *parameters);

enum class ElementOp : uint8_t {
#define ELEMENT(enumerator, cost) enumerator,
#include "backends/cpu/vector/element_ops.inc"
  kCount
};

enum class RegisterForm : uint8_t { kFloat, kMask, kInt };

// Bit i: operand i is one value for the whole block. An instruction has at most one such operand, kWhere none.
using ScalarOperands = unsigned;

// nullptr if the instruction has no such form, or has operands or results of integers.
ElementFn elementFunction(ElementOp op, ScalarOperands scalars);
// A mask instruction from memory of BOOL to memory of BOOL; nullptr for other instructions.
ElementFn boolFunction(ElementOp op);
// An instruction with operands or results of integers, of this type. nullptr if it has none, or `type` is not an
// integer type.
ElementFn integerFunction(ElementOp op, DataType type);
// From one integer type to another, wrapping; nullptr if both have the same number of bits, so that no conversion is
// needed.
ElementFn integerConversion(DataType from, DataType to);
// Rough work per element: 1 for an addition.
int elementCost(ElementOp op);

// Tensor memory of `type` to a register and back. From one value to a whole register with `scalar` set.
RegisterForm registerForm(DataType type);
enum class LoadFrom { kElements, kOneElement };
ElementFn loadFunction(DataType type, LoadFrom from);
ElementFn storeFunction(DataType type);
// The same between memory of `type`, an integer type, and a register of floats: a load and a conversion in one
// instruction, and the inverse, for values in the range of the type. nullptr if there is none.
ElementFn loadAsFloatFunction(DataType type);
ElementFn storeFloatAsFunction(DataType type);
// The form of an operand of an instruction: absent, one value for the whole block, or one value per element.
enum class OperandForm : uint8_t { kNone, kOne, kEach };
// Floats in[0] to memory of `type`, INT8, UINT8, INT16 or UINT16: divided by in[1], rounded (halves to even), shifted
// by in[2], clamped to parameters[0] and [1], which are in the range of the type, and truncated; every step gives a
// float. NaN becomes 0. nullptr for other types.
ElementFn quantiseFunction(DataType type, OperandForm divisor, OperandForm shift);
// Memory of the same types to floats: in[1] is subtracted, and the result multiplied by in[2], which is required.
// nullptr for other types.
ElementFn dequantiseFunction(DataType type, OperandForm shift, OperandForm factor);
// Floats in[0] times in[1], plus in[2], bounded by parameters[0] and [1]; every step gives a float. NaN stays NaN.
enum class Bounds : uint8_t { kNone, kGiven };
ElementFn scaledFunction(OperandForm scale, OperandForm shift, Bounds bounds);

}  // namespace popart::cpu
