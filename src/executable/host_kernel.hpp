// HostKernel: a kernel that runs on the host's processors. It only computes: no allocation, no exception, no lock.
#pragma once
#include "executable/kernel.hpp"
#include "executable/run_context.hpp"

namespace popart::executable {

class CollectiveHandle;

// Pointers for one call; unconnected operands are null. A null pointer ends each list, so a last operand that is absent
// may be left out.
struct KernelArgs {
  const void *const *in;
  void *const *out;
  void *scratch;        // Kernel::scratchBytes() bytes, private to the running thread, 64-byte aligned; uninitialised
  RunContext &context;  // of the running thread, for reports of values outside their domain
  void *shared = nullptr;  // Kernel::sharedBytes() bytes that all tasks of a run share; 64-byte aligned, uninitialised
  CollectiveHandle *handle = nullptr;  // the result of takeHandle
};

class HostKernel : public Kernel {
 public:
  // Each engine calls it once for each step, before the kernel runs. A collective returns the replica's handle.
  virtual CollectiveHandle *takeHandle(const RunContext &context) const {
    (void)context;
    return nullptr;
  }
  // One task, in [0, tasks()). Several threads may run tasks of one round at the same time.
  virtual void run(const KernelArgs &args, int task) const noexcept = 0;
};

}  // namespace popart::executable
