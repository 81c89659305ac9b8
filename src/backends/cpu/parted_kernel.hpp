// PartedKernel: a kernel whose work falls into independent parts, so that a chain of them can take part after part through
// all of it while the values stay in the cache of one core (depth_first.cpp).
#pragma once
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// Operands whose memory is cut with the parts: bit i for input or output i.
struct PartOperands {
  uint64_t inputs = 0, outputs = 0;
};

class PartedKernel : public executable::HostKernel {
 public:
  // How many equal parts the work falls into by itself: the batch of a product. 1: none.
  virtual int64_t parts() const { return 1; }
  // The same computation, to the bit, with tasks [p * tasks() / count, (p + 1) * tasks() / count) as part p of `count`:
  // they touch only the p-th of `count` equal pieces of the memory of each operand that `cut` names. nullptr when the
  // work does not fall apart like that.
  virtual std::shared_ptr<const HostKernel> inParts(int64_t count, PartOperands &cut) const = 0;
};

}  // namespace popart::cpu
