// When a loop calls the check of popart/interrupt.hpp. Why it polls instead of reading a flag that a signal handler
// sets: docs/decisions/0014-interrupting-a-run.md.
#pragma once
#include <chrono>
#include <cstdint>

namespace popart::runtime {

// Decides in one loop when to read the clock: after every iteration when they take long, after some when they do not.
class InterruptPace {
 public:
  // Call once per iteration. Throws what the check throws.
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
