// StepTimes: a profile of a run, step by step, for people who make kernels or networks faster. Enabled by the
// environment variable POPART_STEP_TIMES=FILE: when an engine ends, its table is appended to FILE. An engine without it
// reads no clock.
// An engine without it reads no clock.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "executable/executable.hpp"

namespace popart::runtime {

class StepTimes {
 public:
  // Registers a step; the returned number is given to add(). The step must outlive this object.
  int registerStep(const executable::Step &step);
  void add(int step, int64_t nanoseconds) {
    entries_[static_cast<size_t>(step)].nanoseconds += nanoseconds;
    ++entries_[static_cast<size_t>(step)].calls;
  }
  // A table, longest first: share of all time, calls, mean microseconds, GFLOP/s (kernels that state their work), step,
  // kernel. Then the sums per kernel.
  std::string table() const;

 private:
  struct Entry {
    const executable::Step *step;
    int64_t nanoseconds = 0;
    int64_t calls = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace popart::runtime
