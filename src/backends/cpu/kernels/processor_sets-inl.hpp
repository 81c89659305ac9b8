// The instruction sets of this processor. cmake/best_target.cpp, which is compiled alone, includes this file as well.
#pragma once
#include <cstdint>

#include <hwy/targets.h>

namespace popart::cpu {

// Instruction sets of the processor in Highway's numbering. Every 64-bit ARM processor has NEON. Highway 1.0.3 reports
// NEON only for processors with AES instructions, which kernels do not use, and prints a warning about others. Later
// versions have a set without AES.
inline int64_t setsOfProcessor() {
#if HWY_ARCH_ARM_A64 && !defined(HWY_NEON_WITHOUT_AES)
  return HWY_NEON;
#else
  return hwy::SupportedTargets();
#endif
}

}  // namespace popart::cpu
