// The instruction set of the element-wise engine: functions over blocks of values in registers, compiled per
// instruction set.
//
// A register holds one block: floats (kFloat), 32-bit masks of all ones or all zeros (kMask) or integers of the
// tensor's type (kInt), or is a tensor's own memory where that has the same form. Invariant: element i of a result
// depends on element i of the operands only, so blocks may be split anywhere. A result may be computed in place of an
// operand of the same form.
#pragma once

#include <cstdint>

#include <popart/datatype.hpp>

namespace popart::cpu {

// in: up to three operands; an operand that is one value for the whole block is a pointer to that value. Exactly
// `count` elements are read and written.
using ElementFn = void (*)(const void *const *in, void *out, int64_t count, const float *parameters);

enum class ElementOp : uint8_t {
#define ELEMENT(enumerator, cost) enumerator,
#include "backends/cpu/vector/element_ops.inc"
  kCount
};

enum class RegisterForm : uint8_t { kFloat, kMask, kInt };

// Bit i: operand i is one value for the whole block. At most one operand of an instruction may be; kWhere takes none.
using ScalarOperands = unsigned;

// nullptr when there is no such form of the instruction, or it has operands or results of integers.
ElementFn elementFunction(ElementOp op, ScalarOperands scalars);
// A mask instruction from memory of BOOL to memory of BOOL; nullptr for other instructions.
ElementFn boolFunction(ElementOp op);
// An instruction with operands or results of integers, of this type. nullptr when it has none or `type` is no integer.
ElementFn integerFunction(ElementOp op, DataType type);
// From one type of integers to another, wrapping; nullptr when both have as many bits, so that nothing is to be done.
ElementFn integerConversion(DataType from, DataType to);
// Rough work per element: 1 for an addition.
int elementCost(ElementOp op);

// Tensor memory of `type` to a register and back. From one value to a whole register with `scalar` set.
RegisterForm registerForm(DataType type);
enum class LoadFrom { kElements, kOneElement };
ElementFn loadFunction(DataType type, LoadFrom from);
ElementFn storeFunction(DataType type);
// The same between memory of `type`, an integer, and a register of floats: what a load and a conversion give, in one
// instruction; and back, of values that the type has. nullptr where there is none.
ElementFn loadAsFloatFunction(DataType type);
ElementFn storeFloatAsFunction(DataType type);
// How an instruction is given an operand: not at all, as one value for the whole block, or as a value for each element.
enum class OperandForm : uint8_t { kNone, kOne, kEach };
// Floats in[0] to memory of `type`, INT8, UINT8, INT16 or UINT16: divided by in[1], rounded (halves to even), moved by
// in[2], bounded by parameters[0] and [1], which the type has, and truncated; every step gives a float. What is no
// number gives 0. nullptr for other types.
ElementFn quantiseFunction(DataType type, OperandForm divisor, OperandForm shift);
// Memory of the same types to floats, moved by -in[1] and multiplied by in[2], which is given. nullptr for other types.
ElementFn dequantiseFunction(DataType type, OperandForm shift, OperandForm factor);

}  // namespace popart::cpu
