// Memory that a thread gets only when it first needs it.
#pragma once

namespace popart {

// The thread-local variables of a library that was loaded at run time are allocated when a thread first reads them;
// those of the C++ runtime when it first throws. If there is no memory, the process ends, even if the exception is
// about memory. This function allocates both for the calling thread, so that later exceptions reach their handlers.
// Threads call it when they start; callers of the library call it before they may need much memory.
void reserveThreadMemory() noexcept;

}  // namespace popart
