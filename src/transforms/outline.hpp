// Sequences of operations that a graph repeats become one graph, and a call of it in each place.
#pragma once
#include <popart/ir.hpp>

namespace popart::transforms {

// For each graph of the Ir: sequences of its schedule that are equal in operators, attributes, settings, infos and
// connections, and whose operators are worth more than `threshold` in all (Op::getSubgraphValue, that of products
// and normalisations always the high one; below 0: every repeated sequence), become graphs `outlined_subgraph(<n>)`. Of
// sequences that overlap, the one that saves most value is taken first. What differs between the places (weights,
// constants, seeds) is passed in.
// Operators stay in the order in which they ran. Left where they are: user operators, calls, host transfers, side
// effects, operators that write or show the memory of an operand, and ends of order constraints.
// Time grows as n log² n with the number of operators. Ids of tensors that other operators read stay.
void outline(Ir &ir, float threshold);

}  // namespace popart::transforms
