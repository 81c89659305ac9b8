// Passes that are switched off by name, to find the one that breaks a program.
#pragma once
#include <map>
#include <set>
#include <string>

#include "executable/kernel.hpp"

namespace popart::pipeline {

// Names with "," between them; blanks around a name do not count. `device`: whose own passes count as well. Throws
// popart::error, which begins with `what`, for a name that no pass has, with the nearest ones, and for a pass that is
// needed (Pass::needed), with the reason.
std::set<std::string> passesOff(const std::string &names, const executable::Backend &device, const std::string &what);

// Those of `engineOptions["disable_passes"]`, else of the environment variable POPART_DISABLE_PASSES. Throws as above.
std::set<std::string> passesOff(const std::map<std::string, std::string> &engineOptions,
                                const executable::Backend &device);

}  // namespace popart::pipeline
