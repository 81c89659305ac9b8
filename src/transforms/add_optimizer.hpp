// addOptimizer: adds the update of every weight to the graph: gradient clipping, optimizer state and the update ops.
// Formulas: docs/compat/optimizers.md. State tensors are Variables with isOptimizerState and the documented names
// (Accl___w, Accl1___w, Accl2___w, Accl3___w, Step___w); if the graph has a Variable of that name, it is used
// unchanged.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <popart/graph.hpp>
#include <popart/updaterule.hpp>

#include "transforms/serialise_products.hpp"

namespace popart::transforms {

// A Variable for a non-constant scalar: its value is scalar `name` of the rule of `weight`.
struct ScalarVariable {
  TensorId id;
  std::string name;
  TensorId weight;
  bool unscales = false;  // see OptimizerScalar
};

// What addOptimizer has added to a graph.
struct WeightUpdates {
  std::vector<ScalarVariable> scalars;  // in order of creation
  int64_t firstOp = INT64_MAX;          // its ops have indices from here on
  std::set<OpIndex> sums;               // ops that sum over all elements of their operand: norms
  std::set<OpIndex> resets;             // ops that set an accumulator to zero
  TensorIndex areFinite;                // Overflow::Skip: whether all gradients of the update are finite
};

// Gradients of the parts of a weight, in order.
using GradientParts = std::map<TensorId, std::vector<TensorPart>>;

// What to do if a gradient of an update is infinite or NaN. Skip: neither weights nor states change on any replica;
// accumulators are set to zero, and the next update starts like this one.
enum class Overflow : uint8_t { Apply, Skip };

// `weightToGradient`: finished gradients by weight. A weight that also has parts is updated part by part, in the memory
// of the weight and its states, right after the gradient of the part, last part first, in the order of the backward
// pass.
// Not with Lamb, which needs norms of the whole weight.
// Throws popart::error: a clip group names a weight without gradient, Adam state is scaled by a non-constant loss
// scale, a weight is not a Variable.
WeightUpdates addOptimizer(Graph &graph, const UpdateRules &rules, const std::map<TensorId, TensorId> &weightToGradient,
                           const GradientParts &parts = {}, Overflow overflow = Overflow::Apply);

}  // namespace popart::transforms
