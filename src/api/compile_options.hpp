// How programs are compiled for the devices of this machine.
#pragma once
#include <map>
#include <set>
#include <string>

#include <popart/devicemanager.hpp>

#include "session/compiled_program.hpp"

namespace popart {

// The device that runs programs for a device type.
const runtime::Device &deviceFor(DeviceType type);

// The options for that device: the reference backend computes constants, and the replicas share `threads` threads.
// There is no limit of memory, and any order of ops is accepted.
session::CompileOptions compileOptionsFor(DeviceType type, int threads, int replicas = 1);

// The passes that `engineOptions["disable_passes"]` or the environment switches off. Throws like pipeline::passesOff.
std::set<std::string> passesOff(const std::map<std::string, std::string> &engineOptions, DeviceType type);

}  // namespace popart
