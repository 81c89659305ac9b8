// The memory limit of a program and the report when it does not fit.
#pragma once
#include "executable/executable.hpp"
#include "memory/plan.hpp"

namespace popart::lower {

// "the program does not fit the memory limit: got 8 bytes (…), expected at most 4".
std::string doesNotFitText(const executable::MemoryReport &memory, int64_t mostBytes);
// "\n  name: n bytes" of the largest values of the arena.
std::string largestTensors(const memory::MemoryPlan &plan);
// Throws memory_allocation_err above `mostBytes` (0: no limit), naming the largest tensors of the arena and remedies.
void checkMemoryLimit(const executable::MemoryReport &memory, const memory::MemoryPlan &plan, int64_t mostBytes);

}  // namespace popart::lower
