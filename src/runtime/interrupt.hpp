// When a loop calls the check of popart/interrupt.hpp. Decision 0014 (docs/decisions/0014-interrupting-a-run.md) says
// why it polls instead of reading a flag that a signal handler sets.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace popart::runtime {

// Calls the check; throws the same exceptions.
void askInterruptCheck();

// Thrown to end the work of this thread when another thread holds the reason for the end of the run.
struct RunEnded {};

// While this object exists, loops on this thread throw RunEnded once `stop` is set. Flags may be nested.
class StopFlag {
 public:
  // Asks: the run belongs to this thread, whose loops continue to call the check. Quiet: it belongs to another thread,
  // which calls the check.
  enum class Thread : uint8_t { Asks, Quiet };
  explicit StopFlag(const std::atomic<bool> &stop, Thread thread = Thread::Quiet);
  ~StopFlag();
  StopFlag(const StopFlag &) = delete;
  StopFlag &operator=(const StopFlag &) = delete;

  // Throws RunEnded if this flag or an enclosing one is set. Returns whether all of them let the thread call the check.
  bool asksOrThrow() const;

 private:
  const std::atomic<bool> &stop_;
  const Thread thread_;
  const StopFlag *const outer_;
};

// While this object exists, lookAtInterrupts and loops on this thread throw runtime_error, which names
// `max_run_seconds`, once this much time has passed since its creation; 0: never. A thread has at most one.
class RunDeadline {
 public:
  explicit RunDeadline(std::chrono::nanoseconds longest);
  ~RunDeadline();
  RunDeadline(const RunDeadline &) = delete;
  RunDeadline &operator=(const RunDeadline &) = delete;
};

// For a thread that waits: throws RunEnded once an enclosing flag is set, and calls the check if it may, at most twenty
// times a second. Throws the exceptions of the check.
void lookAtInterrupts();
// How often a loop or a wait on this thread was ended in this way.
int64_t timesEnded() noexcept;

// Used where a thread that may have to end a run waits for other threads, which sleep as long as necessary.
class WatchfulWait {
 public:
  // Sleeps until the number is no longer `value`, and checks for interrupts meanwhile; throws what lookAtInterrupts
  // throws. The thread that changes the number calls ring() afterwards.
  template <class T>
  void sleepWhile(const std::atomic<T> &number, T value) {
    const Sleeper sleeper(*this);
    std::unique_lock guard(lock_);
    while (number.load() == value) {
      bell_.wait_for(guard, kPeriod);
      if (number.load() != value) return;
      guard.unlock();
      lookAtInterrupts();
      guard.lock();
    }
  }
  void ring() noexcept {
    // A write instead of a read: either it comes after the sleeper's write, or the sleeper sees the new number.
    if (sleepers_.fetch_add(0) == 0) return;
    { const std::lock_guard guard(lock_); }
    bell_.notify_all();
  }

 private:
  static constexpr std::chrono::milliseconds kPeriod{50};
  struct Sleeper {
    explicit Sleeper(WatchfulWait &all) : of(all) { ++of.sleepers_; }
    ~Sleeper() { --of.sleepers_; }
    WatchfulWait &of;
  };
  std::atomic<int> sleepers_{0};
  std::mutex lock_;
  std::condition_variable bell_;
};

// Decides for one loop when to read the clock: after every iteration if they are long, less often if they are short.
class InterruptPace {
 public:
  // Call once per iteration. Throws the exceptions of the check, and RunEnded.
  void iteration() {
    if (--left_ <= 0) [[unlikely]]
      look();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void look();
  int64_t left_ = 1, stride_ = 1;
  Clock::time_point last_{};
};

}  // namespace popart::runtime
