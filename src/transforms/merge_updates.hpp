// mergeUpdates: weights that are updated in the same way, with the same numbers, are updated together. What single ops
// did with each weight, one op does with all of them, flat and one after the other:
//
//   Accumulate(v1, g1, f); Accumulate(v2, g2, f)
//   becomes
//   Accumulate(ConcatInplace(ReshapeInplace(v1), ReshapeInplace(v2)), Concat(Reshape(g1), Reshape(g2)), f)
//
// Variables stay what they are to the host: the ops write through views of them.
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

struct UpdateMerging {
  enum class Sizes : uint8_t {
    All,    // one update for all weights of a kind
    Exact,  // updates of `bytes`, but for the last one; a weight may be cut
    Loose,  // whole weights as long as `bytes` are not exceeded, nor the memory at the peak by more than `overPeak`
  };
  Sizes sizes = Sizes::All;
  int64_t bytes = 1'000'000, overPeak = 8000;
};

// Merges the updates made by the ops from `firstUpdate` on, right after the optimizer has made them. `alone`: variables
// whose updates stay as they are; so do those of weights that kernels keep in layouts of their own (operands of
// products and convolutions), that are updated in parts, or whose update works on more than elements; single ops of a
// chain that do (norms, time steps) stay single. `kept`: ids that must stay. Results are the same bits. Gives the
// number of updates that were merged with others.
int mergeUpdates(Graph &graph, const UpdateMerging &options, int64_t firstUpdate, const std::set<TensorId> &alone,
                 const std::set<TensorId> &kept);

}  // namespace popart::transforms
