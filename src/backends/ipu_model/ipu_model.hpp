// The device "ipu_model": programs run on the host with the kernels of the host device, so results are bit-identical to
// the CPU's. It serves to plan or study programs for an IPU.
#pragma once
#include "runtime/host_device.hpp"

namespace popart::ipu_model {

class IpuModel final : public runtime::HostDevice {
 public:
  // `backends`: the same as for the CPU device.
  explicit IpuModel(std::vector<const executable::Backend *> backends) : HostDevice("ipu_model", std::move(backends)) {}
  bool sharesScratch() const override { return false; }
};

}  // namespace popart::ipu_model
