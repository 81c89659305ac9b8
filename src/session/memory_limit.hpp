// The memory that a program may use, and the errors for programs that need more.
#pragma once
#include <cstdint>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <popart/ir.hpp>

#include "base/threads/thread_memory.hpp"

namespace popart::session {

// Limit of the memory of a program in bytes: `engineOptions["max_memory"]`, else the environment variable
// POPART_MAX_MEMORY, each with K, M or G at the end for powers of 1024, else the memory of the machine, in equal parts
// for `processes` processes of a job; 0: no limit. Throws popart::error if a text is not a size.
int64_t memoryLimitBytes(const std::map<std::string, std::string> &engineOptions, int processes = 1);

// Whether remote memory is not counted in the limit: a limit smaller than the machine's memory was given and
// `engineOptions["max_memory_counts_remote"]` is not "true"; or remote memory is in files. Throws popart::error for a
// value that is neither "true" nor "false".
bool isRemoteMemoryUncounted(const std::map<std::string, std::string> &engineOptions);

// Throws memory_allocation_err, naming the tensor and its op, if one tensor alone is larger than the machine's memory.
// Called before kernels are made for it.
void checkTensorsFit(const Ir &ir);

// Returns freed memory to the system, which otherwise counts it as memory of this process.
void returnFreedMemory();

// Throws memory_allocation_err with a text that says what was done.
[[noreturn]] void throwOutOfMemory(const std::string &what);

// Calls f(). If the system has no memory for it, throws memory_allocation_err with `what` was done.
template <class F>
auto withinMemory(const std::string &what, F &&f) {
  reserveThreadMemory();
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc &) {
    throwOutOfMemory(what);
  } catch (const std::length_error &) {
    throwOutOfMemory(what);
  }
}

}  // namespace popart::session
