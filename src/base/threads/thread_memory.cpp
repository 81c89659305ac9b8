// See thread_memory.hpp.
#include "base/threads/thread_memory.hpp"

#include <exception>

namespace popart {
namespace {

// The thread that loads the library, mostly a program's main thread.
[[maybe_unused]] const bool kReserved = (reserveThreadMemory(), true);

}  // namespace

void reserveThreadMemory() noexcept {
  thread_local volatile char ofThisLibrary = 0;  // all of a library's variables come together
  ofThisLibrary = ofThisLibrary + 1;
  static_cast<void>(std::uncaught_exceptions());
}

}  // namespace popart
