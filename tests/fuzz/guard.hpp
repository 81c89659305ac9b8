// What makes a crash, a hang or a flood of memory in one of thousands of inputs a finding that can be repeated:
// whatever ends the process first prints which input it was and keeps its bytes.
#pragma once
#include <string>

namespace popart::fuzz {

// Installs the handlers (signals, or the sanitizers' own last call) and limits memory to `memoryBytes`. Sanitizers
// reserve address space of their own: under the address sanitizer __asan_default_options in guard.cpp limits memory.
void installGuard(long memoryBytes);

// From here on the input is `bytes`, shown as `what`. After `seconds` of waiting the process ends.
class Guarded {
 public:
  Guarded(const std::string &what, const std::string &bytes, unsigned seconds);
  ~Guarded();
  Guarded(const Guarded &) = delete;
  Guarded &operator=(const Guarded &) = delete;
};

// Writes `bytes` to `fuzz-input` in the folder POPART_FUZZ_KEEP, when that is set.
void keepInput(const std::string &bytes);

}  // namespace popart::fuzz
