// From operators and the shapes and layouts of their operands to a program of the element-wise engine, ready to run.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/element_compile.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// `operands` describes what source.inputs are, or are read from, `outputs` (one at least) source.outputs; all results
// have one shape and layout, to which every input is equal or broadcast. nullopt and a reason when there is no such
// program.
std::optional<ElementProgram> makeElementProgram(const ElementSource &source,
                                                 const std::vector<executable::OperandDesc> &operands,
                                                 const std::vector<executable::OperandDesc> &outputs,
                                                 std::string &reason);

}  // namespace popart::cpu
