#include "session/lane_rule.hpp"

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

}  // namespace popart::session
