// How programs are compiled for the devices of this machine.
#pragma once
#include <map>
#include <set>
#include <string>

#include <popart/devicemanager.hpp>

#include "session/compiled_program.hpp"

namespace popart {

// The device behind a device type.
const runtime::Device &deviceFor(DeviceType type);

// For that device, constants computed by the reference backend; the replicas share `threads` threads. No limit of
// memory, any order accepted.
session::CompileOptions compileOptionsFor(DeviceType type, int threads, int replicas = 1);

// The passes that `engineOptions["disable_passes"]` or the environment switches off. Throws as pipeline::passesOff.
std::set<std::string> passesOff(const std::map<std::string, std::string> &engineOptions, DeviceType type);

}  // namespace popart
