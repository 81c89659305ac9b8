// Stochastic rounding of 16-bit results, unbiased (docs/decisions/0028).
//   y = Op(x: FLOAT16)   becomes   y = RoundStochastically(Op(Cast(x, FLOAT)), seed) {to, stream}
// The seed is that of the run: a variable of the program, the rounding state, which every run advances. Loops derive
// one for each iteration, and replicas one for values that may differ between them.
//
//   rngState___fromHost → GetRandomSeed → (ReplicaRandomSeed →) rounding {stream 0}, rounding {stream 1} …
//                                       → loop → ModifyRandomSeed {iteration} → …
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// The rounding state of the main graph: UINT32[2], and the variable's id.
constexpr const char *kRngState = "rngState___fromHost";

// Hint of an op (settings.hints): how it rounds, whatever the option is. "0": to nearest. "1": stochastically, with
// different random numbers on each replica. "2": stochastically, with the same ones on all replicas.
constexpr const char *kRoundingHint = "stochastic_rounding_method";

// Whether an op of the program has a hint to round stochastically.
bool hasRoundingHints(const Ir &ir);

// Rounds the results of every op that computes FLOAT16 or BFLOAT16, if `all`, and of those with the hint. Not results
// that are only moved, random numbers and results of user ops. An op and its recomputed copies round equally. Throws
// popart::error for an unknown hint.
void roundStochastically(Ir &flat, bool all);

}  // namespace popart::lower
