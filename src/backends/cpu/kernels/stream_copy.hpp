// Copies to memory that no cache will hold when it is read again: written past the caches, the target is not read
// first, which is a third of what a copy moves otherwise.
#pragma once
#include <cstdint>

namespace popart::cpu {

// Whether a kernel that reads and writes so many bytes had better write past the caches: whoever reads the result would
// find little of it in the last one.
bool exceedsCaches(int64_t bytesRead, int64_t bytesWritten);

// std::memcpy past the caches. What a thread wrote so is seen by others after its next flushStreams().
void streamBytes(void *to, const void *from, int64_t bytes) noexcept;
void flushStreams() noexcept;

}  // namespace popart::cpu
