#include "session/engine_options.hpp"

#include <popart/error.hpp>

namespace popart::session {
namespace {

bool truthOf(const std::map<std::string, std::string> &engineOptions, const char *key, bool fallback) {
  const auto given = engineOptions.find(key);
  if (given == engineOptions.end()) return fallback;
  check(given->second == "true" || given->second == "false",
        "engineOptions: bad {}: got '{}', expected 'true' or 'false'", key, given->second);
  return given->second == "true";
}

}  // namespace

lower::LaneRule laneRule(const std::map<std::string, std::string> &engineOptions) {
  using lower::LaneRule;
  const auto given = engineOptions.find("pipeline.concurrent");
  if (given == engineOptions.end() || given->second == "auto") return LaneRule::Auto;
  check(given->second == "always" || given->second == "never",
        "engineOptions: bad pipeline.concurrent: got '{}', expected 'auto', 'always' or 'never'", given->second);
  return given->second == "always" ? LaneRule::Always : LaneRule::Never;
}

bool ignoresLabelsOutOfRange(const std::map<std::string, std::string> &engineOptions) {
  return truthOf(engineOptions, "ignore_out_of_range_labels", false);
}

bool replicasShareMemory(const std::map<std::string, std::string> &engineOptions) {
  return truthOf(engineOptions, "replicas.sharedMemory", true);
}

}  // namespace popart::session
