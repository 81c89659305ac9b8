// Numbers that are written in a program: constants of one element, and operators that multiply by one.
#pragma once
#include <optional>

#include <popart/graph.hpp>

namespace popart::ops {

// A constant of one element, whose value is there; the passes write it into the op that reads it.
bool isNumber(const Tensor &tensor);
// The number by which `op` multiplies its operand `t`, or one over that by which it divides it, in float32; finite and
// never 0. None: the op does something else, or its result has another shape than `t`.
std::optional<float> factorOf(const Graph &graph, const Op &op, TensorIndex t);

}  // namespace popart::ops
