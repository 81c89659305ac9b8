// See interrupt.hpp. The clock is read after a number of iterations that grows while iterations are short. So a loop of
// tiny iterations is not slowed down, and a loop of long iterations checks after each one.
#include "runtime/interrupt.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include <popart/error.hpp>
#include <popart/interrupt.hpp>

namespace popart::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr milliseconds kPeriod{50};        // between two checks; too short for a person to notice
constexpr microseconds kShortStride{200};  // a stride that took less may grow
constexpr int64_t kLongestStride = 64;     // iterations

std::atomic<InterruptCheck> interruptCheck{nullptr};
thread_local std::chrono::steady_clock::time_point lastQuestion{};
thread_local const StopFlag *innermostFlag = nullptr;
thread_local int64_t endings = 0;
thread_local std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
thread_local std::chrono::nanoseconds longestRun{0};

void lookAt(std::chrono::steady_clock::time_point now) {
  try {
    if (now > deadline)
      throw runtime_error(
          "engineOptions: the run takes longer than max_run_seconds: got more than {} s. Raise the limit, or leave it "
          "out",
          std::chrono::duration<double>(longestRun).count());
    if (innermostFlag && !innermostFlag->asksOrThrow()) return;
    if (now - lastQuestion < kPeriod) return;
    lastQuestion = now;
    askInterruptCheck();
  } catch (...) {
    ++endings;
    throw;
  }
}

}  // namespace

void askInterruptCheck() {
  if (const InterruptCheck check = interruptCheck.load(std::memory_order_relaxed)) check();
}

StopFlag::StopFlag(const std::atomic<bool> &stop, Thread thread)
    : stop_(stop), thread_(thread), outer_(std::exchange(innermostFlag, this)) {}
StopFlag::~StopFlag() { innermostFlag = outer_; }

RunDeadline::RunDeadline(std::chrono::nanoseconds longest) {
  if (longest.count() == 0) return;
  longestRun = longest;
  deadline = std::chrono::steady_clock::now() + longest;
}
RunDeadline::~RunDeadline() { deadline = std::chrono::steady_clock::time_point::max(); }

bool StopFlag::asksOrThrow() const {
  bool asks = true;
  for (const StopFlag *flag = this; flag; flag = flag->outer_) {
    if (flag->stop_.load(std::memory_order_relaxed)) throw RunEnded();
    asks = asks && flag->thread_ == Thread::Asks;
  }
  return asks;
}

void InterruptPace::look() {
  const Clock::time_point now = Clock::now();
  stride_ = now - last_ < kShortStride ? std::min(2 * stride_, kLongestStride) : 1;
  left_ = stride_;
  last_ = now;
  lookAt(now);
}

void lookAtInterrupts() { lookAt(std::chrono::steady_clock::now()); }

int64_t timesEnded() noexcept { return endings; }

}  // namespace popart::runtime

namespace popart {

void setInterruptCheck(InterruptCheck check) noexcept {
  runtime::interruptCheck.store(check, std::memory_order_relaxed);
}

}  // namespace popart
