// Waiting for what no thread of this process announces.
#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

namespace popart {

// Between two looks of a thread that has waited for so long in vain. The longer it has waited, the longer it rests:
// what comes is seen late by an eighth of the time, and the processor is left to the threads that compute.
inline void restAfter(std::chrono::nanoseconds waited) {
  constexpr std::chrono::microseconds kLeast{10}, kMost{200};
  constexpr int kShare = 8;
  const auto time = std::min<std::chrono::nanoseconds>(waited / kShare, kMost);
  if (time < kLeast)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(time);
}

}  // namespace popart
