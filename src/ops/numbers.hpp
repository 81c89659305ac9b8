// Numbers in a program: constants of one element, and operators that multiply by such a constant.
#pragma once
#include <optional>

#include <popart/graph.hpp>

namespace popart::ops {

// Whether the tensor is a constant of one element with a known value; passes write the value into the op that reads it.
bool isNumber(const Tensor &tensor);
// The number by which `op` multiplies its operand `t`, or one over the number by which it divides it, in float32;
// finite and never 0. Empty: the op does something else, or its result has another shape than `t`.
std::optional<float> factorOf(const Graph &graph, const Op &op, TensorIndex t);

}  // namespace popart::ops
