// RunStatistics: how much data the runs of a loaded program have moved, and how long they took.
#pragma once
#include <cstdint>
#include <optional>

namespace popart {

// Counts since the program was loaded. A transfer is one value of one stream of one replica; counts are over all
// replicas, and each replica that reads a broadcast value counts it.
struct RunStatistics {
  int64_t runs = 0;               // successful runs
  int64_t transfersFromHost = 0;  // values read from streams, including those of runs that ended early
  int64_t bytesFromHost = 0;      // of these values
  int64_t transfersToHost = 0;    // values written to streams
  int64_t bytesToHost = 0;        // of these values
  std::optional<double> seconds;  // total time of these runs, including host transfers; empty if runs are not timed
};

}  // namespace popart
