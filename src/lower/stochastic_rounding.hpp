// Rounds results of 16-bit floats at random, unbiased (docs/decisions/0028).
//   y = Op(x: FLOAT16)   becomes   y = RoundStochastically(Op(Cast(x, FLOAT)), seed) {to, stream}
// The seed is that of the run: a variable of the program, the rounding state, which every run advances; loops make one
// of their own for each iteration, and replicas for values that may differ between them.
//
//   rngState___fromHost → GetRandomSeed → (ReplicaRandomSeed →) rounding {stream 0}, rounding {stream 1} …
//                                       → loop → ModifyRandomSeed {iteration} → …
#pragma once
#include <popart/ir.hpp>

namespace popart::lower {

// The rounding state of the main graph: UINT32[2], and the variable's id.
constexpr const char *kRngState = "rngState___fromHost";

// Hint of an op (settings.hints): how it rounds, whatever the option says. "0": to nearest. "1": at random, by draws of
// each replica's own. "2": at random, by the same draws on all replicas.
constexpr const char *kRoundingHint = "stochastic_rounding_method";

// Whether an op of the program says by itself that it rounds at random.
bool hasRoundingHints(const Ir &ir);

// Every op that computes a FLOAT16 or BFLOAT16 result, if `all`, and those whose hint asks for it. Results that are
// moved only, draws of random numbers and results of user ops stay as they are. An op and its recomputed copies round
// alike. Throws popart::error for a hint that is none of the above.
void roundStochastically(Ir &flat, bool all);

}  // namespace popart::lower
