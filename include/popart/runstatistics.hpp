// RunStatistics: what the runs of a loaded program have moved, and how long they took.
#pragma once
#include <cstdint>
#include <optional>

namespace popart {

// Counts since the program was loaded; loading starts anew. A transfer is one value of one stream of one replica: all
// replicas together, and each that reads a broadcast value counts it.
struct RunStatistics {
  int64_t runs = 0;               // those that ended well
  int64_t transfersFromHost = 0;  // values taken from streams, also by runs that ended early
  int64_t bytesFromHost = 0;      // of these values
  int64_t transfersToHost = 0;    // values given to streams
  int64_t bytesToHost = 0;        // of these values
  std::optional<double> seconds;  // in these runs, host transfers included; none where runs are not timed
};

}  // namespace popart
