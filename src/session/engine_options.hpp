// Engine options of a session that say how a program is compiled or loaded.
#pragma once
#include <map>
#include <string>

#include "lower/choose_lanes.hpp"

namespace popart::session {

// `engineOptions["pipeline.concurrent"]`: "auto" (the default), "always" or "never". Throws popart::error for another
// value.
lower::LaneRule laneRule(const std::map<std::string, std::string> &engineOptions);

// `engineOptions["ignore_out_of_range_labels"]`: "true" or "false" (the default). Throws popart::error for another
// value.
bool ignoresLabelsOutOfRange(const std::map<std::string, std::string> &engineOptions);

// `engineOptions["replicas.sharedMemory"]`: "true" (the default) or "false". Throws popart::error for another value.
bool replicasShareMemory(const std::map<std::string, std::string> &engineOptions);

}  // namespace popart::session
