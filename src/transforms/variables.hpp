// The roles of variables in a training program, and the tensors that share their memory.
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// The member of `rules`, which has one for each kind of variable, for the kind of `variable`.
template <class Rules>
auto &ruleOfKind(Rules &rules, const Tensor &variable);

// Whether the variable only sums gradients over micro-batches.
bool isAccumulator(const Tensor &variable);

// The variable whose new value `t` is; invalid if it is not a new value.
TensorIndex variableOf(const Graph &graph, TensorIndex t);

// The tensors without a producer (variables, inputs, constants) whose memory, or a part of it, `t` shares.
std::set<TensorIndex> memoryShownBy(const Graph &graph, TensorIndex t);
// Those of them that are variables.
std::set<TensorIndex> variablesShownBy(const Graph &graph, TensorIndex t);

template <class Rules>
auto &ruleOfKind(Rules &rules, const Tensor &variable) {
  return isAccumulator(variable)     ? rules.accumulators
         : variable.isOptimizerState ? rules.optimizerState
                                     : rules.weights;
}

}  // namespace popart::transforms
