// Checks whether this processor can run the kernels of this library, before the first of them runs.
#pragma once
#include <cstdint>

namespace popart::cpu {

// Throws popart::error if the processor has none of the instruction sets that kernels are compiled for: a library built
// with POPART_CPU_TARGETS=native may run on a processor with fewer instructions. Queries the processor once; later
// calls are cheap.
void requireInstructionSet();

// The same for given sets, in Highway's numbering: the compiled ones and those of the processor. Throws in the same
// cases.
void requireInstructionSet(int64_t compiled, int64_t offered);

}  // namespace popart::cpu
