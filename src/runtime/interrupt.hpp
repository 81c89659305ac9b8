// When a loop calls the check of popart/interrupt.hpp. Why it polls instead of reading a flag that a signal handler
// sets: docs/decisions/0014-interrupting-a-run.md.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace popart::runtime {

// Calls the check; throws what it throws.
void askInterruptCheck();

// What ends a run whose reason another thread knows.
struct RunEnded {};

// While it lives, loops on this thread throw RunEnded once `stop` is set. Flags may lie inside of each other.
class StopFlag {
 public:
  // Asks: the run belongs to this thread, whose loops go on asking the check. Quiet: to another one, which asks.
  enum class Thread : uint8_t { Asks, Quiet };
  explicit StopFlag(const std::atomic<bool> &stop, Thread thread = Thread::Quiet);
  ~StopFlag();
  StopFlag(const StopFlag &) = delete;
  StopFlag &operator=(const StopFlag &) = delete;

  // Throws RunEnded if this flag or one around it is set. Whether all of them let the thread ask the check.
  bool asksOrThrow() const;

 private:
  const std::atomic<bool> &stop_;
  const Thread thread_;
  const StopFlag *const outer_;
};

// While it lives, lookAtInterrupts and loops on this thread throw runtime_error, which names `max_run_seconds`, once so
// much time has gone since it was made; 0: never. There is one on a thread.
class RunDeadline {
 public:
  explicit RunDeadline(std::chrono::nanoseconds longest);
  ~RunDeadline();
  RunDeadline(const RunDeadline &) = delete;
  RunDeadline &operator=(const RunDeadline &) = delete;
};

// For a thread that waits: throws RunEnded once a flag around it is set, and asks the check if it may, at most twenty
// times a second; throws what that throws.
void lookAtInterrupts();
// How often a loop or a wait on this thread was ended so.
int64_t timesEnded() noexcept;

// Where a thread that may have to end a run waits for others, which sleep for as long as it takes.
class WatchfulWait {
 public:
  // Sleeps until the number is no longer `value`, and looks at interrupts meanwhile; throws what lookAtInterrupts
  // throws. Who changes the number calls ring() behind it.
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
    // A write in the place of a read: either it comes behind the sleeper's, or the sleeper sees the number.
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

// Decides in one loop when to read the clock: after every iteration when they take long, after some when they do not.
class InterruptPace {
 public:
  // Call once per iteration. Throws what the check throws, and RunEnded.
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
