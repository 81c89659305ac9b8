// Sleeping until another process changes a number in memory that processes share.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace popart {

// Sleeps while the number is `value`, at most for `most`; it may return earlier. The memory may be mapped for reading
// alone. A thread that changes the number calls wakeShared then. Returns false, at once, if the system cannot do this.
bool sleepOnShared(const std::atomic<uint32_t> &number, uint32_t value, std::chrono::nanoseconds most) noexcept;

// Wakes all threads of all processes that sleep on the number.
void wakeShared(const std::atomic<uint32_t> &number) noexcept;

// Whether another thread took the processor from this one within the last tenth of a second. If so, more threads want
// to run than there are processors: one that waits should sleep, and not poll. False if the system does not tell.
bool lostProcessorLately() noexcept;

}  // namespace popart
