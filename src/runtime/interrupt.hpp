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

// While it lives, loops on this thread throw RunEnded once `stop` is set, and do not ask the check: the thread that the
// run belongs to does.
class StopFlag {
 public:
  explicit StopFlag(const std::atomic<bool> &stop);
  ~StopFlag();
  StopFlag(const StopFlag &) = delete;
  StopFlag &operator=(const StopFlag &) = delete;
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
