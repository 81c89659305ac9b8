// See thread_memory.hpp.
#include "base/threads/thread_memory.hpp"

#include <exception>

namespace popart {
namespace {

// For the thread that loads the library, usually the main thread.
[[maybe_unused]] const bool kReserved = (reserveThreadMemory(), true);

}  // namespace

void reserveThreadMemory() noexcept {
  thread_local volatile char ofThisLibrary = 0;  // all thread-local variables of a library are allocated together
  ofThisLibrary = ofThisLibrary + 1;
  static_cast<void>(std::uncaught_exceptions());
}

}  // namespace popart
