// What this process may compute on: cores among its allowed processors, and the CPU quota of its control group.
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
  // Processors' worth of time that the control group of this process, or one around it, grants; nullopt: no limit.
  std::optional<double> quota;

  // Threads that can compute at the same time: one per core, and no more than the quota, rounded up, feeds. At least 1.
  int threads() const;
  // What one of `parts` processes has that share all of this: as many cores, as far as there are enough, and quota.
  ProcessorLimits part(int number, int parts) const;
};

// Limits of `processors` (numbers of the allowed ones) as the files below `root` say: /sys/devices/system/cpu for
// cores, /proc/self/cgroup and /sys/fs/cgroup (version 1 or 2) for the quota. Files that are missing or odd limit
// nothing.
ProcessorLimits readProcessorLimits(const std::vector<int> &processors, const std::string &root = "");

// The limits of this process, read anew at each call.
ProcessorLimits processorLimits();

}  // namespace popart
