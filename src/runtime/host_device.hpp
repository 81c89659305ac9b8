// HostDevice: the host's processors and memory. Kernels are those of executable/host_kernel.hpp. A kernel wakes only as
// many threads as make it faster, and memory is first touched by the threads that use it.
#pragma once
#include "runtime/device.hpp"

namespace popart::runtime {

class HostDevice : public Device {
 public:
  HostDevice(std::string name, std::vector<const executable::Backend *> backends)
      : name_(std::move(name)), backends_(std::move(backends)) {}
  std::string name() const override { return name_; }
  const std::vector<const executable::Backend *> &backends() const override { return backends_; }
  // With one thread per allowed core, each worker is bound to a core.
  std::unique_ptr<Queue> open(const executable::Executable &executable, const RunSettings &settings) const override;

 private:
  std::string name_;
  std::vector<const executable::Backend *> backends_;
};

}  // namespace popart::runtime
