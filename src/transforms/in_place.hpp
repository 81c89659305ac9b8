// computeInPlace: if an operator is the last to need an operand in any order of the program, it is replaced by its
// in-place variant, which writes the result into the operand. The memory plan shares memory by the same rule, so the
// program shows what is computed in place. Plain operators may be in place too: the plan also considers layouts, fusion
// and loops.
//
//   %h = MatMul(%x, %w); %y = Relu(%h)   ⇒   %h = MatMul(%x, %w); %y = ReluInplace(%h)
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// Never written: tensors that no op of the graph makes (variables, constants, streams, graph inputs), `kept` and
// outputs of the graph, and all that share their memory. Variants are tried in the order of
// Op::Settings::inplacePreferences, by default that of their rows. Not tried: variants with a preference of 0 or less,
// ops that exclude the pattern InPlace, and ops of users. Returns the number of ops that changed. Linear in the graph.
int computeInPlace(Graph &graph, const std::set<TensorId> &kept);

}  // namespace popart::transforms
