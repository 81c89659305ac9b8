// Whether this processor can run the kernels of this library, asked before the first of them runs.
#pragma once
#include <cstdint>

namespace popart::cpu {

// Throws popart::error when none of the instruction sets that kernels are compiled for is one of this processor: a
// library of POPART_CPU_TARGETS=native that was brought to a lesser machine. Asks the processor once, later calls are
// cheap.
void requireInstructionSet();

// The same for given sets, as Highway numbers them: those compiled and those of the processor. Throws likewise.
void requireInstructionSet(int64_t compiled, int64_t offered);

}  // namespace popart::cpu
