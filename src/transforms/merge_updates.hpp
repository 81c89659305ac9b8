// mergeUpdates: weights with the same update and the same scalars are updated together. One op replaces the single ops
// of all weights; it reads the weights flattened and concatenated:
//
//   Accumulate(v1, g1, f); Accumulate(v2, g2, f)
//   becomes
//   Accumulate(ConcatInplace(ReshapeInplace(v1), ReshapeInplace(v2)), Concat(Reshape(g1), Reshape(g2)), f)
//
// For the host the variables do not change: the ops write through views of them.
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

struct UpdateMerging {
  enum class Sizes : uint8_t {
    All,    // one update for all weights of a kind
    Exact,  // updates of `bytes`, except the last one; weights may be divided
    Loose,  // whole weights, up to `bytes`, and up to `overPeak` more memory at the peak
  };
  Sizes sizes = Sizes::All;
  int64_t bytes = 1'000'000, overPeak = 8000;
};

// Merges the updates made by the ops from `firstUpdate` on; run it right after addOptimizer. Not merged: updates of
// variables in `alone`, of weights that kernels store in their own layouts (operands of products and convolutions), of
// weights that are updated in parts, and updates that are not element-wise; single ops of a chain that are not
// element-wise (norms, time steps) stay single. `kept`: ids that must stay. Results keep their bits. Returns the number
// of updates that were merged with others.
int mergeUpdates(Graph &graph, const UpdateMerging &options, int64_t firstUpdate, const std::set<TensorId> &alone,
                 const std::set<TensorId> &kept);

}  // namespace popart::transforms
