// foldNumbers: backward passes compute single numbers once. The gradient of a mean is one number in every element, and
// the gradient of a power has an exponent minus one and a choice of branch; without this pass such ops would compute
// whole tensors.
#pragma once
#include <popart/ir.hpp>

#include "ops/constant_evaluation.hpp"

namespace popart::lower {

// In every graph of a flat program:
//   results of one element that depend only on constants become constants (not without `evaluate`);
//   element-wise ops read the operand of an Expand instead of its result, if that keeps the shape of their result;
//   element-wise ops whose operands are all such numbers are computed on the numbers, and then expanded;
//   Where with a constant condition of one element is replaced by the operand it chooses.
// Values keep their bits, except those of constants, which `evaluate` computes.
void foldNumbers(Ir &flat, const EvaluateOp &evaluate);

}  // namespace popart::lower
