// Lets runs end at the first operator whose result holds a NaN or an infinity that none of its operands held:
//
//   y = Log(x)   becomes   y = Log(x);  FloatingPointCheck(FirstNonFinite(y), FirstNonFinite(x))
//
// Runs on flat functional programs before operators are expanded or fused, so that the error names an operator and a
// tensor of the user's program, whatever kernels compute them. Values stay as they are.
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// Watches the floating point results of all operators that compute, in loops and branches too. What comes from outside
// (streams, variables, constants, operators with effects) may hold anything; views show what they are given.
void addFloatingPointChecks(Ir &flat);

}  // namespace popart::lower
