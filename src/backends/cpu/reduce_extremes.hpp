// Smallest and largest numbers of rows, in one pass over them.
#pragma once
#include "backends/cpu/cpu.hpp"

namespace popart::cpu {

// ReduceExtremes of FLOAT in plain memory over its last axes (axes of length 1 do not matter).
std::unique_ptr<executable::Kernel> createReduceExtremes(const executable::KernelRequest &request, std::string &reason);

}  // namespace popart::cpu
