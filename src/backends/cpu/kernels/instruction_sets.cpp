// See instruction_sets.hpp.
#include "backends/cpu/kernels/instruction_sets.hpp"

#include <string>

#include <hwy/targets.h>
#include <popart/error.hpp>

#include "backends/cpu/kernels/processor_sets-inl.hpp"

namespace popart::cpu {
namespace {

std::string namesOf(int64_t sets) {
  std::string names;
  for (; sets != 0; sets &= sets - 1)  // the lowest bit is the best set
    names += (names.empty() ? "" : ", ") + std::string(hwy::TargetName(sets & -sets));
  return names;
}

}  // namespace

void requireInstructionSet(int64_t compiled, int64_t offered) {
  check(
      (compiled & offered) != 0,
      "CPU backend: this processor has no instruction set that the library was compiled for: got a processor with {}, "
      "expected one with {}. Use a library that was configured with -DPOPART_CPU_TARGETS=all (./dev build --preset "
      "release, or a wheel), or compile on this machine.",
      namesOf(offered), namesOf(compiled));
}

void requireInstructionSet() {
  static const bool asked = (requireInstructionSet(HWY_TARGETS, setsOfProcessor()), true);
  static_cast<void>(asked);
}

}  // namespace popart::cpu
