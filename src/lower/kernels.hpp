// The kernel for each op of a program, and the reasons why a backend refused one.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "executable/executable.hpp"
#include "lower/kernel_cache.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {

// False for ops that the engine runs itself (loops, branches, host streams, assignments) and for views.
bool needsKernel(const Op &op);

struct Kernels {
  std::unordered_map<const Op *, std::shared_ptr<const executable::Kernel>> of;  // without ops that need no kernel
  std::vector<executable::Fallback> fallbacks;                                   // in the order of the schedule
  const executable::Kernel *find(const Op &op) const {
    const auto it = of.find(&op);
    return it == of.end() ? nullptr : it->second.get();
  }
};

// Whether the first backend has a kernel for the request; if an operand is not plain, whether any backend has one.
bool hasKernel(const Backends &backends, const executable::KernelRequest &request);

// Chooses the first backend that has a kernel. Throws popart::error, naming the op and every reason, if none has.
Kernels chooseKernels(const Ir &program, const schedule::Schedule &schedule, const Backends &backends);

}  // namespace popart::lower
