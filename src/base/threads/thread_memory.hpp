// Memory that the system gives a thread late.
#pragma once

namespace popart {

// A thread's own variables of a library that was loaded while the program ran are made when the thread first reads
// them; those of C++'s runtime when it first throws. Where there is no memory left for them, the system ends the
// process, also when what is thrown says just that. This makes those of the calling thread, so that what is thrown
// later reaches its handler. Threads call it when they begin, callers of the library before what may need much memory.
void reserveThreadMemory() noexcept;

}  // namespace popart
