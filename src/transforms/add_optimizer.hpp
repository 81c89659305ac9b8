// addOptimizer: puts the update of every weight into the graph: gradient clipping, optimizer state and the update ops.
// Formulas: docs/compat/optimizers.md. State tensors are Variables with isOptimizerState and the
// documented names (Accl___w, Accl1___w, Accl2___w, Accl3___w, Step___w); a Variable of that name in the graph is taken
// as it is.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <popart/graph.hpp>
#include <popart/updaterule.hpp>

#include "transforms/serialise_products.hpp"

namespace popart::transforms {

// A Variable that holds a non-constant scalar: scalar `name` of the rule of `weight` gives its value.
struct ScalarVariable {
  TensorId id;
  std::string name;
  TensorId weight;
  bool unscales = false;  // see OptimizerScalar
};

// What addOptimizer has put into a graph.
struct WeightUpdates {
  std::vector<ScalarVariable> scalars;  // in order of creation
  int64_t firstOp = INT64_MAX;          // its ops have indices from here on
  std::set<OpIndex> sums;               // ops that add up over all elements of their operand: norms
  std::set<OpIndex> resets;             // ops that empty an accumulator, whatever it holds
  TensorIndex areFinite;                // Overflow::Skip: whether all gradients of the update are
};

// Gradients of the parts of a weight, in order.
using GradientParts = std::map<TensorId, std::vector<TensorPart>>;

// What happens when a gradient that enters an update is infinite or NaN. Skip: neither weights nor states change on any
// replica; accumulators are emptied, and the next update begins as this one did.
enum class Overflow : uint8_t { Apply, Skip };

// `weightToGradient`: finished gradients by weight. A weight that has parts as well is updated part by part, each in
// the memory of the weight and its states and right after its gradient, last part first as the backward pass makes
// them; Lamb, which needs norms of the whole weight, is not.
// Throws popart::error: clip group naming a weight without gradient, Adam state scaled by a non-constant loss scale,
// weights that are no Variable.
WeightUpdates addOptimizer(Graph &graph, const UpdateRules &rules, const std::map<TensorId, TensorId> &weightToGradient,
                           const GradientParts &parts = {}, Overflow overflow = Overflow::Apply);

}  // namespace popart::transforms
