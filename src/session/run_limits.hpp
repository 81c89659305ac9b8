// What a run may take, as options of a session say it.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace popart::session {

// Of one run; 0: no limit.
struct RunLimits {
  int64_t iterations = 0;  // of one loop
  std::chrono::nanoseconds time{0};
};

// `engineOptions["max_loop_iterations"]` and `engineOptions["max_run_seconds"]`. Throws popart::error for what is no
// whole number of 1 or more, and no number above 0 of at most a year.
RunLimits runLimits(const std::map<std::string, std::string> &engineOptions);

// A time in seconds. Throws popart::error, led by `what`, for what is no number above 0 of at most a year.
std::chrono::nanoseconds secondsFromText(const std::string &text, const char *what);

}  // namespace popart::session
