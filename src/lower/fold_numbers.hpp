// foldNumbers: what backward passes compute of numbers alone is computed once. The gradient of a mean is one number
// in every element, and that of a power has an exponent less one and a choice of branch; written with other operators
// they would be passes over whole tensors.
#pragma once
#include <popart/ir.hpp>

#include "ops/constant_evaluation.hpp"

namespace popart::lower {

// Every graph of a flat program:
//   results of one element that depend on constants alone become constants (not without `evaluate`);
//   element-wise ops read the number of an Expand in the place of its result, where theirs keeps its shape;
//   element-wise ops of nothing but such numbers are computed on the numbers, and expanded;
//   Where with a constant condition of one element is what it chooses.
// Values stay the same to the bit, but for those of constants, which `evaluate` computes.
void foldNumbers(Ir &flat, const EvaluateOp &evaluate);

}  // namespace popart::lower
