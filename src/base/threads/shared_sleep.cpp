// See shared_sleep.hpp. A futex without FUTEX_PRIVATE_FLAG: the kernel finds it by file and offset, not by the address
// in one process.
#include "base/threads/shared_sleep.hpp"

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#endif

namespace popart {

#if defined(__linux__)

namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

long futex(const std::atomic<uint32_t> &number, int operation, uint32_t value, const timespec *time) {
  return ::syscall(SYS_futex, &number, operation, value, time, nullptr, 0);
}

}  // namespace

bool sleepOnShared(const std::atomic<uint32_t> &number, uint32_t value, std::chrono::nanoseconds most) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::max(most, std::chrono::nanoseconds(0)));
  const timespec time{static_cast<time_t>(seconds.count()),
                      static_cast<long>(std::max<int64_t>((most - seconds).count(), 0))};
  if (futex(number, FUTEX_WAIT, value, &time) == 0) return true;
  return errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT;
}

void wakeShared(const std::atomic<uint32_t> &number) noexcept { futex(number, FUTEX_WAKE, INT_MAX, nullptr); }

bool lostProcessorLately() noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLately{100};
  thread_local long known = 0;  // times
  thread_local Clock::time_point last{};
  rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) != 0) return false;
  const Clock::time_point now = Clock::now();
  if (usage.ru_nivcsw != known) {
    known = usage.ru_nivcsw;
    last = now;
  }
  return now - last < kLately;
}

#else

bool sleepOnShared(const std::atomic<uint32_t> &, uint32_t, std::chrono::nanoseconds) noexcept { return false; }
void wakeShared(const std::atomic<uint32_t> &) noexcept {}
bool lostProcessorLately() noexcept { return false; }

#endif

}  // namespace popart
