// How programs are compiled for the devices of this machine.
#pragma once
#include <popart/devicemanager.hpp>

#include "session/compiled_program.hpp"

namespace popart {

// The device behind a device type.
const runtime::Device &deviceFor(DeviceType type);

// For that device, constants computed by the reference backend; the replicas share `threads` threads. No limit of
// memory, any order accepted.
session::CompileOptions compileOptionsFor(DeviceType type, int threads, int replicas = 1);

}  // namespace popart
