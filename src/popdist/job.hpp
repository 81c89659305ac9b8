// The job that this process belongs to, as the variables of its launcher say; which launchers there are is in
// popdist/context.hpp.
#pragma once
#include <chrono>
#include <optional>

namespace popdist {

// Where this process is in its job.
struct Job {
  int total = 1, local = 1;                       // replicas of all instances, and of this one
  int offset = 0;                                 // global number of its first replica
  bool isUniform = true;                          // all instances have equally many replicas
  int localInstance = 0;                          // number of this instance among those of its host
  std::optional<int> index = {}, instances = {};  // number of this instance and of all, where variables say them
};

// Throws std::invalid_argument for variables that are no numbers or contradict one another. Warns once of torchrun.
Job job();
// Number of all instances; 0 where it does not follow from the variables.
int knownInstances(const Job &job);
// POPDIST_TIMEOUT. Throws std::invalid_argument: no time above 0.
std::chrono::milliseconds timeout();
// The warning of torchrun is given again.
void forgetWarnings();

}  // namespace popdist
