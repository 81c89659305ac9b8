// From operators and the operands they meet to a program of the element-wise engine, ready to run.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/element_compile.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// `inputs` describes source.inputs, `outputs` (one at least) source.outputs; all results have one shape and layout,
// against which the inputs lie elementwise or broadcast. nullopt and a reason when there is no such program.
std::optional<ElementProgram> makeElementProgram(const ElementSource &source,
                                                 const std::vector<executable::OperandDesc> &inputs,
                                                 const std::vector<executable::OperandDesc> &outputs,
                                                 std::string &reason);

}  // namespace popart::cpu
