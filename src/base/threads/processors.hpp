// Processors for this process: cores among those it may run on, and the CPU quota of its control group.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace popart {

// Processors that this process may run on (its affinity mask); at least 1.
int allowedProcessors();

struct ProcessorLimits {
  // The allowed processors of each physical core, hyper-threads of one core together, in ascending order.
  std::vector<std::vector<int>> cores;
  // CPU time per time that the control groups of this process grant; nullopt: no limit.
  std::optional<double> quota;

  // Number of threads that can compute at the same time: one per core, at most the quota, rounded up. At least 1.
  int threads() const;
  // The share of one of `parts` processes: as many cores as the others, if there are enough, and an equal quota.
  ProcessorLimits part(int number, int parts) const;
};

// Limits of `processors` (numbers of the allowed ones), from files below `root`: /sys/devices/system/cpu for cores,
// /proc/self/cgroup and /sys/fs/cgroup (version 1 or 2) for the quota. A file that is missing or cannot be read sets no
// limit.
ProcessorLimits readProcessorLimits(const std::vector<int> &processors, const std::string &root = "");

// The limits of this process, read again at each call.
ProcessorLimits processorLimits();

}  // namespace popart
