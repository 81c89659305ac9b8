// The built-in devices: the CPU, IPU models and virtual IPUs. Ids 0..N-1 are single IPUs; ids from N on are groups of
// 2, 4, 8 … consecutive ones, as on a machine with real IPUs. A virtual IPU can be attached once per process.
#pragma once
#include <popart/devicemanager.hpp>
#include <popart/sessionoptions.hpp>

#include "base/threads/processors.hpp"

namespace popart {

// Number of virtual IPUs of this process: POPART_VIRTUAL_IPUS, default 16. Throws popart::error for an invalid value.
int virtualIpuCount();

// The provider that the device manager starts with.
DeviceProvider &builtInDevices();

// The number of threads that a session computes with: engineOptions["num_threads"], or else POPART_NUM_THREADS, or else
// one for each physical core that this process may use, limited by the CPU quota of its control group (`limits`).
// Throws popart::error for an invalid value.
int computeThreadCount(const SessionOptions &options, const ProcessorLimits &limits = processorLimits());
// The same without session options.
int computeThreadCount(const ProcessorLimits &limits = processorLimits());

}  // namespace popart
