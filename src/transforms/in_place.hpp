// computeInPlace: an operator that is the last to need an operand, however the program is ordered, becomes the in-place
// variant that writes its result into it. The memory plan shares memory by the same rule, so that the program shows
// what is computed in place; a plain operator may still be: the plan sees layouts, fusion and loops as well.
//
//   %h = MatMul(%x, %w); %y = Relu(%h)   ⇒   %h = MatMul(%x, %w); %y = ReluInplace(%h)
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// Never written: what no op of the graph makes (variables, constants, streams, graph inputs), `kept` and outputs of the
// graph, and all that shows their memory. Variants are tried in the order of Op::Settings::inplacePreferences, by
// default of their rows; those of preference 0 or less are not, and neither are ops that exclude the pattern InPlace
// and ops of users. Returns the number of ops that changed. Linear in the graph.
int computeInPlace(Graph &graph, const std::set<TensorId> &kept);

}  // namespace popart::transforms
