// What a program would take on an IPU, by a model of few numbers: values and work are spread evenly over all tiles, a
// step takes the longer of its operations and its bytes, and tiles wait for each other before each step. Exchange
// between tiles, their code and values that are there several times are not known. See the guide "The model of an IPU".
#pragma once
#include <algorithm>
#include <vector>

#include "backends/ipu_model/machine.hpp"
#include "executable/executable.hpp"

namespace popart::ipu_model {

// Cycles of one call of a step.
struct StepCycles {
  double calls = 0;      // in a run; 0 in the shorter one of two branches
  double sync = 0;       // all tiles wait for each other
  double compute = 0;    // operations …
  double memory = 0;     // … and, at the same time, bytes of the tiles' memory
  double link = 0;       // bytes that come from, or go to, the host or remote memory
  double linkBytes = 0;  // how many of these there are
  double total() const { return sync + std::max(compute, memory) + link; }
};

struct Estimate {
  std::vector<StepCycles> steps;  // by the numbers of runtime::StepTimes: those inside of loops before the ones behind
  double cycles = 0;              // of a run
  int openLoops = 0;              // whose length data decide: they count as one iteration
};

// `tiles`: of all IPUs of a replica.
Estimate estimate(const executable::Executable &executable, const Machine &machine, int64_t tiles);

}  // namespace popart::ipu_model
