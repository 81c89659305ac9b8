// Prints the instruction set that kernels for all of them would run with here: its number and name in Highway.
#include <cstdint>
#include <cstdio>

#include <hwy/targets.h>

#include "../src/backends/cpu/kernels/processor_sets-inl.hpp"

int main() {
  const int64_t sets = popart::cpu::setsOfProcessor() & HWY_TARGETS;
  const int64_t best = sets & -sets;  // the lowest bit is the best set
  std::printf("%lld %s\n", static_cast<long long>(best), hwy::TargetName(best));
  return best == 0;
}
