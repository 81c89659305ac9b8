// Runs something with the kernels of every instruction set that this processor has.
#pragma once
#include <gtest/gtest.h>

#include <hwy/targets.h>

namespace popart::test {

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
