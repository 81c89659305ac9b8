// The device "ipu_model": programs run on the host with the kernels of the host device, so that results are
// bit-identical to the CPU's; for people who plan or study programs for an IPU.
#pragma once
#include "runtime/host_device.hpp"

namespace popart::ipu_model {

class IpuModel final : public runtime::HostDevice {
 public:
  // `backends`: as those of the CPU's device.
  explicit IpuModel(std::vector<const executable::Backend *> backends) : HostDevice("ipu_model", std::move(backends)) {}
};

}  // namespace popart::ipu_model
