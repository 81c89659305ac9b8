// See run_limits.hpp.
#include "session/run_limits.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <popart/error.hpp>

namespace popart::session {
namespace {

constexpr double kMostSeconds = 366.0 * 24 * 3600;

// Whether the whole text is a number; sets `value`.
template <class T>
bool isNumber(const std::string &text, T &value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

}  // namespace

RunLimits runLimits(const std::map<std::string, std::string> &engineOptions) {
  RunLimits limits;
  if (const auto given = engineOptions.find("max_loop_iterations"); given != engineOptions.end())
    check(isNumber(given->second, limits.iterations) && limits.iterations > 0,
          "engineOptions: bad max_loop_iterations: got '{}', expected a whole number of 1 or more", given->second);
  if (const auto given = engineOptions.find("max_run_seconds"); given != engineOptions.end())
    limits.time = secondsFromText(given->second, "engineOptions: bad max_run_seconds");
  return limits;
}

std::chrono::nanoseconds secondsFromText(const std::string &text, const char *what) {
  double seconds = 0;
  check(isNumber(text, seconds) && seconds > 0 && seconds <= kMostSeconds,
        "{}: got '{}', expected a number above 0 and at most {}", what, text, kMostSeconds);
  return std::chrono::nanoseconds(std::max<int64_t>(1, std::llround(seconds * 1e9)));
}

}  // namespace popart::session
