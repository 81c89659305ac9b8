// Limits of a run, from session options.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace popart::session {

// Limits of one run; 0: no limit.
struct RunLimits {
  int64_t iterations = 0;  // iterations of one loop
  std::chrono::nanoseconds time{0};
};

// `engineOptions["max_loop_iterations"]` and `engineOptions["max_run_seconds"]`. Throws popart::error unless the first
// is an integer of 1 or more and the second a number above 0 and at most a year.
RunLimits runLimits(const std::map<std::string, std::string> &engineOptions);

// A time in seconds. Throws popart::error, starting with `what`, unless it is above 0 and at most a year.
std::chrono::nanoseconds secondsFromText(const std::string &text, const char *what);

}  // namespace popart::session
