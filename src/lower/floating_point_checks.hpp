// Lets runs end at the first operator whose result contains a NaN or an infinity that none of its operands contains:
//
//   y = Log(x)   becomes   y = Log(x);  FloatingPointCheck(FirstNonFinite(y), FirstNonFinite(x))
//
// Runs on flat functional programs before operators are expanded or fused, so that the error names an operator and a
// tensor of the user's program, whatever kernels compute them. Values do not change.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// Checks the floating-point results of all operators that compute, also in loops and branches. Values from outside
// (streams, variables, constants, operators with effects) may be anything; views return their operands.
void addFloatingPointChecks(Ir &flat);

}  // namespace popart::lower
