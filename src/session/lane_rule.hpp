// Whether stages of a pipeline run at the same time, as options of a session say it.
#pragma once
#include <map>
#include <string>

#include "lower/choose_lanes.hpp"

namespace popart::session {

// `engineOptions["pipeline.concurrent"]`: "auto" (the default), "always" or "never". Throws popart::error for another
// value.
lower::LaneRule laneRule(const std::map<std::string, std::string> &engineOptions);

}  // namespace popart::session
