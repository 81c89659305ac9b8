// emit: program + schedule + kernels + memory plan → executable. It makes no decisions: it writes steps.
#pragma once
#include <memory>

#include "lower/kernels.hpp"
#include "memory/plan.hpp"

namespace popart::lower {

// Throws popart::error if values of one host stream have different types or shapes.
std::shared_ptr<executable::Executable> emit(const Ir &program, const schedule::Schedule &schedule,
                                             const Kernels &kernels, const memory::MemoryPlan &plan);

}  // namespace popart::lower
