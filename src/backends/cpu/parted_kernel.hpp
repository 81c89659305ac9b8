// PartedKernel: a kernel whose work splits into independent parts, so that a chain of such kernels can run depth first,
// part by part, while the values stay in the cache of one core (depth_first.cpp).
#pragma once
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// Operands whose memory is split with the work: bit i for input or output i.
struct PartOperands {
  uint64_t inputs = 0, outputs = 0;
};

class PartedKernel : public executable::HostKernel {
 public:
  // Number of equal parts into which the work splits naturally, such as the batch of a product. 1: none.
  virtual int64_t parts() const { return 1; }
  // The same computation with the same bits, where part p of `count` is tasks [p * tasks() / count, (p + 1) * tasks() /
  // count). They access only the p-th of `count` equal slices of the memory of each operand in `cut`. nullptr if the
  // work cannot be split this way.
  virtual std::shared_ptr<const HostKernel> inParts(int64_t count, PartOperands &cut) const = 0;
};

}  // namespace popart::cpu
