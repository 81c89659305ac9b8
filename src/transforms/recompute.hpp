// recompute: what the backward pass reads of the forward pass is computed again there, by copies of the forward ops,
// instead of being kept. What is kept, a checkpoint, and other copies are all that a copy reads.
//
//   h = MatMul(x, w); y = Gelu(h); …; dh = GeluGrad(dy, h)
//   becomes, when MatMul is to be computed again,
//   h = MatMul(x, w); y = Gelu(h); …; h' = MatMul(x, w) <recomputed>; dh = GeluGrad(dy, h')
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// Which forward ops are computed again, besides those that are marked so (RecomputeType::Recompute).
enum class RecomputeRule : uint8_t {
  Marked,    // no others
  Standard,  // those of all segments but the last one, segments as chooseCuts (checkpoints.hpp) has them
  Norms,     // normalisations (Trait::Norm)
  Stages,    // those of all pipeline stages but the last one; what another stage reads is kept
  All,
};

struct RecomputeOptions {
  RecomputeRule rule = RecomputeRule::Marked;
  int64_t firstGradient = 0;   // place in program order (Op::place) of the first op of the backward pass
  std::set<TensorId> anchors;  // in memory until the end anyway, so never computed again
};

// The copies that were made.
struct Recomputation {
  int copies = 0;
  Cost cost;  // of one run of them
};

// Kept are the results of ops that are marked Checkpoint, that have an effect or that say so (Op::canRecompute),
// anchors and outputs of the graph. Views follow the memory they show. A copy stands in front of the first op of the
// backward pass that needs it, has the settings of its original, the name "<name>/recomputed" and
// RecomputeType::Recomputed; its results are called "<id>___recomputed". Random ops read the seed of their original.
// Results are the same bits. O(n log n).
Recomputation recompute(Graph &graph, const RecomputeOptions &options);

}  // namespace popart::transforms
