// The memory limit of a program and the report when it does not fit.
#pragma once
#include "executable/executable.hpp"
#include "memory/plan.hpp"

namespace popart::lower {

// "the program does not fit the memory limit: got 8 bytes (…), expected at most 4".
std::string doesNotFitText(const executable::MemoryReport &memory, int64_t mostBytes);
// "\n  name: n bytes, made by MatMul 'dense'" for the largest values, and for the largest variables and constants. The
// program of the plan must still exist.
std::string largestTensors(const memory::MemoryPlan &plan);
// Throws memory_allocation_err above `mostBytes` (0: no limit); names the largest tensors, their ops, and remedies.
void checkMemoryLimit(const executable::MemoryReport &memory, const memory::MemoryPlan &plan, int64_t mostBytes);

}  // namespace popart::lower
