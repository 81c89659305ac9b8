// How programs are compiled for the devices of this machine.
#pragma once
#include <popart/devicemanager.hpp>

#include "session/compiled_program.hpp"

namespace popart {

// The kernel providers of a device in order of preference.
std::vector<const executable::Backend *> backendsFor(DeviceType device);

// Those backends, constants computed by the reference backend. No limit of memory, one iteration, any order accepted.
session::CompileOptions compileOptionsFor(DeviceType device, int threads);

}  // namespace popart
