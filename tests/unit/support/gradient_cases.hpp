// Uses of operators that have gradients, enough to make autodiff emit every gradient row of the catalog. Element-wise
// rows, reductions and their like are found in the catalog; rows with attributes or operands of their own stand in a
// table.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <popart/ir.hpp>

namespace popart::test {

struct GradientCase {
  std::string type;
  std::vector<TensorInfo> inputs;  // an unset info: not connected
  Attributes attributes;
  int outputs = 1;
};

std::vector<GradientCase> gradientCases();

// The program of the case: streams, the op, a scalar of its floating outputs, and the gradients of that scalar for all
// floating inputs, which are the graph's outputs. Class weights of losses have no gradient.
std::unique_ptr<Ir> gradientProgram(const GradientCase &gradientCase);

}  // namespace popart::test
