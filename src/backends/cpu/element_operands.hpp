// Makes a program of the element-wise engine, ready to run, from operators and the shapes and layouts of their
// operands.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/element_compile.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// `operands` describes the operands that source.inputs are or are read from, `outputs` (at least one) describes
// source.outputs. All results have the same shape and layout; every input has them too or is broadcast to them. nullopt
// and a reason if there is no such program.
std::optional<ElementProgram> makeElementProgram(const ElementSource &source,
                                                 const std::vector<executable::OperandDesc> &operands,
                                                 const std::vector<executable::OperandDesc> &outputs,
                                                 std::string &reason);

}  // namespace popart::cpu
