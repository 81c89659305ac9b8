// Levels of the log channels by name, in the spelling of the user guide's C++ examples ("Executing graphs",
// programming interface). The channels themselves are in logging.hpp.
#pragma once
#include <string>

#include <popart/logging.hpp>

namespace popart::logger {

// Levels: TRACE DEBUG INFO WARN ERR CRITICAL OFF, any case. compat: "popart" sets every module, as the guide's comment
// says (tests/seeds/test_executing.py); any other name sets that one module, unknown ones the channel "none".
inline void setLevel(const std::string &module, const std::string &level) {
  logging::configure({{module == "popart" ? "all" : module, level}});
}

}  // namespace popart::logger
