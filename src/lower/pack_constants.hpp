// Constants in their layout: the values of a constant become the bytes that kernels read, as a UINT8 tensor of their
// stored size, so that a stored program can be used where it lies. Invariant: a constant with a layout has its plain
// values before this pass and stored bytes after it.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

void packConstants(Ir &program, int threads);

}  // namespace popart::lower
