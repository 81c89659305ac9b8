#include "session/engine_options.hpp"

#include <popart/error.hpp>

namespace popart::session {

lower::LaneRule laneRule(const std::map<std::string, std::string> &engineOptions) {
  using lower::LaneRule;
  const auto given = engineOptions.find("pipeline.concurrent");
  if (given == engineOptions.end() || given->second == "auto") return LaneRule::Auto;
  check(given->second == "always" || given->second == "never",
        "engineOptions: bad pipeline.concurrent: got '{}', expected 'auto', 'always' or 'never'", given->second);
  return given->second == "always" ? LaneRule::Always : LaneRule::Never;
}

bool ignoresLabelsOutOfRange(const std::map<std::string, std::string> &engineOptions) {
  const auto given = engineOptions.find("ignore_out_of_range_labels");
  if (given == engineOptions.end()) return false;
  check(given->second == "true" || given->second == "false",
        "engineOptions: bad ignore_out_of_range_labels: got '{}', expected 'true' or 'false'", given->second);
  return given->second == "true";
}

}  // namespace popart::session
