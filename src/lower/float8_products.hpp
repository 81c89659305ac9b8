// FLOAT8 operators, expressed by operators that devices have.
//   y = MatMul(a: FLOAT8, b: FLOAT8, s)   becomes
//   y = Cast(MatMul(CastThenPow2Scale(a, s), CastThenPow2Scale(b, 0)), FLOAT16)
// Products are summed in FLOAT and rounded to FLOAT16 once; scaling by a power of two is exact.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// `checkScales`: runs end if a scale is not in [-32, 32). Constant scales inside this range need no check.
void widenFloat8(Ir &flat, bool checkScales);

}  // namespace popart::lower
