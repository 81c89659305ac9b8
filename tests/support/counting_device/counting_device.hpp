// A device that is not the host, for tests of what devices may be: memory of its own, work that waits until its results
// are read, a packing of weights that only it knows. It counts what it is asked to do, and ends a run with
// internal_error when a kernel or a copy gets an address that is none of its memory.
//
// Its kernels are those of another backend, run one task after the other, those of a round backwards, on scratch memory
// full of ones.
#pragma once
#include <memory>

#include "runtime/device.hpp"

namespace popart::test {

class CountingDevice final : public runtime::Device {
 public:
  struct Counts {
    int64_t launches = 0;
    int64_t copiesIn = 0, bytesIn = 0;    // host to device
    int64_t copiesOut = 0, bytesOut = 0;  // device to host
    int64_t copiesWithin = 0;
    int64_t allocations = 0;
  };

  // Kernels of `kernels` first, then of `fallback`.
  CountingDevice(const executable::Backend &kernels, const executable::Backend &fallback);
  ~CountingDevice() override;

  std::string name() const override { return "counting"; }
  const std::vector<const executable::Backend *> &backends() const override { return backends_; }
  std::unique_ptr<runtime::Queue> open(const executable::Executable &executable,
                                       const runtime::RunSettings &settings) const override;

  // Of all queues since it was made, or since reset().
  const Counts &counts() const { return *counts_; }
  void reset() { *counts_ = {}; }

 private:
  std::unique_ptr<executable::Backend> backend_;
  std::vector<const executable::Backend *> backends_;
  std::shared_ptr<Counts> counts_;
};

}  // namespace popart::test
