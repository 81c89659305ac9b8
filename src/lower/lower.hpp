// lower: Ir -> Executable. Flattens calls into one sequential functional graph, decomposes what the backends do not
// know, fuses, assigns layouts, schedules, plans memory and asks the backends for a kernel for every op.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <popart/ir.hpp>

#include "executable/executable.hpp"
#include "ops/constant_evaluation.hpp"

namespace popart::lower {

struct LowerOptions {
  // Ordered kernel providers; the first that accepts wins: {cpu, ref}.
  std::vector<const executable::Backend *> backends;
  EvaluateOp evaluate;         // computes transposes of constants that no product reads; empty: they stay
  int threads = 1;             // only sizes scratch memory; results never depend on it
  int64_t iterations = 1;      // Executable::iterations
  bool fuse = true;            // false: one kernel per op, plain layouts (tests compare both)
  bool keepText = false;       // fill Executable::loweredText
  int64_t maxMemoryBytes = 0;  // 0: no limit; otherwise memory_allocation_err when the plan does not fit
};

// Throws popart::error when an op has no kernel on any backend (naming op and reasons), memory_allocation_err.
std::shared_ptr<const executable::Executable> lower(const Ir &ir, const LowerOptions &options);

}  // namespace popart::lower
