// When a loop calls the check of popart/interrupt.hpp. Why it polls instead of reading a flag that a signal handler
// sets: docs/decisions/0014-interrupting-a-run.md.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

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
