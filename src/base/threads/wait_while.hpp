// Waiting for another thread to change a number.
#pragma once
#include <atomic>
#include <chrono>

namespace popart {

// Returns when the number is no longer `value`; reads it with acquire order. Polls for a while before it sleeps, unless
// `spin` is false: with more threads than cores, polling would take the time of those that have work. Who changes the
// number calls notify_all() on it.
template <class T>
void waitWhile(const std::atomic<T> &number, T value, bool spin) noexcept {
  constexpr int kReadsPerLook = 64;  // at the clock
  if (spin) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    do {
      for (int i = 0; i < kReadsPerLook; ++i)
        if (number.load(std::memory_order_acquire) != value) return;
    } while (std::chrono::steady_clock::now() < until);
  }
  while (number.load(std::memory_order_acquire) == value) number.wait(value, std::memory_order_acquire);
}

}  // namespace popart
