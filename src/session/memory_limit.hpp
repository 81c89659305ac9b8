// What a program may take of the machine's memory, and how it is refused when it asks for more.
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

// Limit on the memory of a program in bytes: `engineOptions["max_memory"]`, else the environment variable
// POPART_MAX_MEMORY, each with K, M or G at the end for powers of 1024, else what the machine has, in equal parts for
// `processes` processes of a job; 0: no limit. Throws popart::error for text that is no size.
int64_t memoryLimitBytes(const std::map<std::string, std::string> &engineOptions, int processes = 1);

// Whether remote memory is other memory than what the limit is for: a limit was given, and is not just what the machine
// has, nor does `engineOptions["max_memory_counts_remote"]` ask for its memory to count; or it is files. Throws
// popart::error for a value that is neither "true" nor "false".
bool isRemoteMemoryBeside(const std::map<std::string, std::string> &engineOptions);

// Throws memory_allocation_err, naming the tensor and its op, when one tensor alone is larger than the machine's
// memory: before kernels are made for it.
void checkTensorsFit(const Ir &ir);

// Gives back to the system what was freed, which it would else count as this process's.
void returnFreedMemory();

// Throws memory_allocation_err that says what was being done.
[[noreturn]] void throwOutOfMemory(const std::string &what);

// f(); where the system has no memory left for it, throws memory_allocation_err that names `what` was being done.
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
