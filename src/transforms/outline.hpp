// Replaces repeated sequences of operations by one graph and a call of it in each place.
#pragma once
#include <popart/ir.hpp>

namespace popart::transforms {

// For each graph of the Ir: sequences of its schedule that are equal in operators, attributes, settings, infos and
// connections, and whose operators have a total value above `threshold`, become graphs `outlined_subgraph(<n>)`. The
// value is Op::getSubgraphValue; products and normalisations always have the high one; below 0: every repeated
// sequence. Of overlapping sequences, the one that saves the most value is taken first. Tensors that differ between the
// places (weights, constants, seeds) are passed in.
// The order of operators does not change. Not outlined: user operators, calls, host transfers, ops with side
// effects, operators whose result shares or changes the memory of an operand, and ops in order constraints.
// Takes n log² n time in the number of operators. Ids of tensors that other operators read do not change.
void outline(Ir &ir, float threshold);

}  // namespace popart::transforms
