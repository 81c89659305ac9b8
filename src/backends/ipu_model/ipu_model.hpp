// The device "ipu_model": programs run on the host, with the host device's kernels and so with its numbers to the bit, for
// people who study or plan for an IPU.
#pragma once
#include "runtime/host_device.hpp"

namespace popart::ipu_model {

class IpuModel final : public runtime::HostDevice {
 public:
  // `backends`: as those of the CPU's device.
  explicit IpuModel(std::vector<const executable::Backend *> backends) : HostDevice("ipu_model", std::move(backends)) {}
};

}  // namespace popart::ipu_model
