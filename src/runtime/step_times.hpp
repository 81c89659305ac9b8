// StepTimes: a profile of a run, step by step, for people who make kernels or networks faster. Enabled by
// RunSettings::timesSteps, and by the environment variable POPART_STEP_TIMES=FILE: when an engine ends, its table is
// appended to FILE. An engine without either reads no clock.
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

  struct Entry {
    const executable::Step *step;
    int64_t nanoseconds = 0;
    int64_t calls = 0;
  };
  // In the order of the program, those inside of loops before the ones behind.
  const std::vector<Entry> &entries() const { return entries_; }
  void reset();

 private:
  std::vector<Entry> entries_;
};

// "matmul packed", "host load".
std::string kernelName(const executable::Step &step);

}  // namespace popart::runtime
