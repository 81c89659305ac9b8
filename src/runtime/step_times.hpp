// StepTimes: a profile of a run, step by step, for people who make kernels or networks faster. It is enabled by
// RunSettings::timesSteps, and by the environment variable POPART_STEP_TIMES=FILE: when an engine ends, its table is
// appended to FILE. Without either, an engine reads no clock. With RunSettings::mostEvents it also records when each
// step ran, and when each thread worked on it.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executable/executable.hpp"

namespace popart::runtime {

class StepTimes {
 public:
  explicit StepTimes(int64_t mostEvents = 0) : events_(static_cast<size_t>(mostEvents)) {}

  // Nanoseconds of the clock that all times here use, which is that of Python's time.monotonic_ns.
  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // Registers a step; add() takes the number that this returns. The step must outlive this object. Before the first
  // run.
  int registerStep(const executable::Step &step);
  int numberOf(const executable::Step &step) const;  // the number of a registered step
  // One thread does all work of the step: its events are those of the step.
  void runsOnThread(int step, int thread) { entries_[static_cast<size_t>(step)].thread = thread; }
  void add(int step, int64_t begin, int64_t end) {
    Entry &entry = entries_[static_cast<size_t>(step)];
    entry.nanoseconds += end - begin;
    ++entry.calls;
    if (events_.empty()) return;
    const Event whole{step, kWholeStep, begin, end, end - begin};
    if (entry.thread == kWholeStep) return addEvent(whole);
    const size_t at = added_.fetch_add(2, std::memory_order_relaxed);
    if (at < events_.size()) events_[at] = whole;
    if (at + 1 < events_.size()) events_[at + 1] = {step, entry.thread, begin, end, end - begin};
  }
  // A table of steps, longest first: share of the total time, calls, mean microseconds, GFLOP/s (for kernels that state
  // their work), step with its layer, kernel. Then the sums by kernel and by scope of the layers.
  std::string table() const;

  static constexpr int kWholeStep = -1;
  struct Entry {
    const executable::Step *step;
    int thread = kWholeStep;                           // that does all of its work; kWholeStep: any number of them do
    int64_t nanoseconds = 0, calls = 0;                // since the last reset()
    int64_t earlierNanoseconds = 0, earlierCalls = 0;  // before it, for the table
  };
  // In the order of the program; steps inside loops come before the steps after the loop.
  const std::vector<Entry> &entries() const { return entries_; }

  // A call of a step; or the work of one thread in it, from the start of its first task to the end of its last one.
  struct Event {
    int step = 0, thread = kWholeStep;
    int64_t begin = 0, end = 0, busy = 0;  // busy: nanoseconds in tasks
  };
  // Any number of threads may add at the same time. Events that do not fit are counted and dropped.
  void addEvent(const Event &event) noexcept {
    const size_t at = added_.fetch_add(1, std::memory_order_relaxed);
    if (at < events_.size()) events_[at] = event;
  }
  bool keepsEvents() const { return !events_.empty(); }
  std::span<const Event> events() const { return {events_.data(), std::min(added_.load(), events_.size())}; }
  size_t addedEvents() const { return added_.load(); }
  void reset();  // clears entries and events; the table keeps all runs

 private:
  std::vector<Entry> entries_;
  std::vector<Event> events_;  // as many as are kept; the first `added_` are valid
  std::atomic<size_t> added_{0};
};

// "matmul packed", "host load".
std::string kernelName(const executable::Step &step);

}  // namespace popart::runtime
