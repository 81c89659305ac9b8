// Estimates the time of a program on an IPU with a simple model: values and work are distributed evenly over all tiles,
// a step takes the longer of its compute time and its memory time, and all tiles synchronise before each step. The
// model ignores exchange between tiles, code size and replicated values. See the guide "The model of an IPU".
#pragma once
#include <algorithm>
#include <vector>

#include "backends/ipu_model/machine.hpp"
#include "executable/executable.hpp"

namespace popart::ipu_model {

// Cycles of one call of a step.
struct StepCycles {
  double calls = 0;      // per run; 0 in the shorter of two branches
  double sync = 0;       // synchronisation of all tiles
  double compute = 0;    // time of the operations …
  double memory = 0;     // … and, in parallel, of accesses to the tiles' memory
  double link = 0;       // time to exchange data with the host or remote memory
  double linkBytes = 0;  // bytes exchanged with the host or remote memory
  double total() const { return sync + std::max(compute, memory) + link; }
};

struct Estimate {
  // Numbered as in runtime::StepTimes: steps in a loop come before the steps after the loop.
  std::vector<StepCycles> steps;
  double cycles = 0;  // per run
  int openLoops = 0;  // number of loops whose trip count depends on data; they count as one iteration
};

// `tiles`: number of tiles of all IPUs of a replica.
Estimate estimate(const executable::Executable &executable, const Machine &machine, int64_t tiles);

}  // namespace popart::ipu_model
