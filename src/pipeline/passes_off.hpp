// Passes that are switched off by name, to find the one that breaks a program.
#pragma once
#include <map>
#include <set>
#include <string>

#include "executable/kernel.hpp"

namespace popart::pipeline {

// Names separated by ","; blanks around a name are ignored. `device`: its own passes are included. Throws
// popart::error, starting with `what`: for an unknown name, with similar names, and for a pass that is needed
// (Pass::needed), with the reason.
std::set<std::string> passesOff(const std::string &names, const executable::Backend &device, const std::string &what);

// The passes of `engineOptions["disable_passes"]`, else of the variable POPART_DISABLE_PASSES. Throws as above.
std::set<std::string> passesOff(const std::map<std::string, std::string> &engineOptions,
                                const executable::Backend &device);

}  // namespace popart::pipeline
