// Waiting for another thread to change a number.
#pragma once
#include <atomic>
#include <chrono>

namespace popart {

// Polls for a while, unless `spin` is false: with more threads than cores, polling takes time from threads that have
// work. Returns whether the number is no longer `value`; reads it with acquire order.
template <class T>
bool changesSoon(const std::atomic<T> &number, T value, bool spin) noexcept {
  constexpr int kReadsPerLook = 64;  // number of reads between two looks at the clock
  if (!spin) return number.load(std::memory_order_acquire) != value;
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
  do {
    for (int i = 0; i < kReadsPerLook; ++i)
      if (number.load(std::memory_order_acquire) != value) return true;
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

// Sleeps until the number is no longer `value`; reads it with acquire order. The thread that changes the number must
// call notify_all() on it.
template <class T>
void sleepWhile(const std::atomic<T> &number, T value) noexcept {
  while (number.load(std::memory_order_acquire) == value) number.wait(value, std::memory_order_acquire);
}

// Polls, then sleeps.
template <class T>
void waitWhile(const std::atomic<T> &number, T value, bool spin) noexcept {
  if (!changesSoon(number, value, spin)) sleepWhile(number, value);
}

}  // namespace popart
