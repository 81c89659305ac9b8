// What tests know of the instruction sets of this processor.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include <hwy/targets.h>

namespace popart::test {

// a * b + c as kernels compute it: with one rounding, or with two on an x86 processor without such an instruction.
inline float multiplyAdd(float a, float b, float c) {
#if HWY_ARCH_X86
  static const int64_t kTargets = hwy::SupportedTargets();
  if ((kTargets & -kTargets) >= HWY_SSE4) return a * b + c;  // the lowest bit is the best one
#endif
  return std::fma(a, b, c);
}

// Runs something with the kernels of every instruction set that this processor has.
// f() once for each instruction set, which the dispatch of kernels then chooses. Kernels that keep their choice (those
// of products) keep it.
template <class F>
void forAllInstructionSets(F &&f) {
  int count = 0;
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f(), ++count;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
  EXPECT_GE(count, 1);
}

}  // namespace popart::test
