// What variables are to a training program, and which tensors are a variable under another name.
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// Of `rules`, which has one member for each kind of variable, that of `variable`.
template <class Rules>
auto &ruleOfKind(Rules &rules, const Tensor &variable);

// Whether the variable adds up gradients over micro-batches and holds nothing else.
bool isAccumulator(const Tensor &variable);

// The variable whose new value `t` is; invalid when it is none.
TensorIndex variableOf(const Graph &graph, TensorIndex t);

// The tensors that no op makes (variables, inputs, constants) whose memory `t` shows, or parts of it.
std::set<TensorIndex> memoryShownBy(const Graph &graph, TensorIndex t);
// Those that are variables.
std::set<TensorIndex> variablesShownBy(const Graph &graph, TensorIndex t);

template <class Rules>
auto &ruleOfKind(Rules &rules, const Tensor &variable) {
  return isAccumulator(variable)     ? rules.accumulators
         : variable.isOptimizerState ? rules.optimizerState
                                     : rules.weights;
}

}  // namespace popart::transforms
