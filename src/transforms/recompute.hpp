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

// Which forward ops are computed again, besides those that are marked so (RecomputeType::Recompute) and those that make
// a narrower form of a variable (casts of weights to 16 bits): the variable is in memory anyway.
enum class RecomputeRule : uint8_t {
  Marked,    // no others
  Chosen,    // those that make a chosen tensor, in segments as chooseCheckpoints (checkpoints.hpp) has them
  Standard,  // those of all segments but the last one, segments as chooseCheckpoints has them
  Norms,     // normalisations (Trait::Norm)
  Stages,    // those of all pipeline stages but the last one; what another stage reads is kept
  All,
};

struct RecomputeOptions {
  RecomputeRule rule = RecomputeRule::Marked;
  int64_t firstGradient = 0;   // place in program order (Op::place) of the first op of the backward pass
  std::set<TensorId> anchors;  // in memory until the end anyway, so never computed again
  std::set<TensorId> chosen;   // of rule Chosen; what leads to them and is not read backwards is computed again as well
};

// Whether an op may run a second time: no effect, no exchange with the host, not marked Checkpoint, and its class says
// so (Op::canRecompute).
bool mayRepeat(const Op &op);
// Whether the op shows the elements of its first operand.
bool isViewOfFirst(const Op &op);

// The copies that were made.
struct Recomputation {
  int copies = 0;
  Cost cost;  // of one run of them
};

// Kept are the results of ops that may not repeat, anchors and outputs of the graph. Views follow the memory they show.
// A copy stands in front of the first op of the backward pass that needs it, has the settings of its original, the name
// "<name>/recomputed" and RecomputeType::Recomputed; its results are called "<id>___recomputed". Random ops read the
// seed of their original. Results are the same bits. O(n log n).
Recomputation recompute(Graph &graph, const RecomputeOptions &options);

}  // namespace popart::transforms
