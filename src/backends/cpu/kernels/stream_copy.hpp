// Copies to memory that will no longer be cached when it is read. Stores bypass the caches, so the target is not read
// first, which is otherwise a third of the memory traffic of a copy.
#pragma once
#include <cstdint>

namespace popart::cpu {

// Whether a kernel that reads and writes these numbers of bytes should bypass the caches, because little of its result
// would be left in the last level cache for the next reader.
bool exceedsCaches(int64_t bytesRead, int64_t bytesWritten);

// std::memcpy that bypasses the caches. Other threads see the written bytes after the thread's next flushStreams().
void streamBytes(void *to, const void *from, int64_t bytes) noexcept;
void flushStreams() noexcept;

}  // namespace popart::cpu
