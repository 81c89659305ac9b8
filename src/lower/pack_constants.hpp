// Stores constants in their layouts: the values of a constant become the bytes that kernels read, as a UINT8 tensor of
// the stored size, so that a program file can be used in place. Invariant: a constant with a layout has plain values
// before this pass and stored bytes after it.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

void packConstants(Ir &program, int threads);

}  // namespace popart::lower
