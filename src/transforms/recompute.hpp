// recompute: values of the forward pass that the backward pass reads are not kept, but computed again by copies of the
// forward ops. A copy reads only checkpoints, which are kept, and results of other copies.
//
//   h = MatMul(x, w); y = Gelu(h); …; dh = GeluGrad(dy, h)
//   becomes, if MatMul is recomputed,
//   h = MatMul(x, w); y = Gelu(h); …; h' = MatMul(x, w) <recomputed>; dh = GeluGrad(dy, h')
#pragma once
#include <set>

#include <popart/graph.hpp>

namespace popart::transforms {

// Which forward ops are recomputed, in addition to those that are marked (RecomputeType::Recompute) and to casts of
// variables to narrower types (weights to 16 bits), because the variable is in memory in any case.
enum class RecomputeRule : uint8_t {
  Marked,    // no others
  Chosen,    // those that make a chosen tensor, in the segments of chooseCheckpoints (checkpoints.hpp)
  Standard,  // those of all segments of chooseCheckpoints except the last one
  Norms,     // normalisations (Trait::Norm)
  Stages,    // those of all pipeline stages except the last one; values for other stages are kept
  All,
};

struct RecomputeOptions {
  RecomputeRule rule = RecomputeRule::Marked;
  int64_t firstGradient = 0;   // place in program order (Op::place) of the first op of the backward pass
  std::set<TensorId> anchors;  // in memory until the end in any case, so never recomputed
  std::set<TensorId> chosen;   // for rule Chosen; ops before them that are not read backwards are recomputed too
};

// Whether an op may run a second time: it has no effect, does not exchange data with the host, is not marked
// Checkpoint, and its class allows it (Op::canRecompute).
bool mayRepeat(const Op &op);
// Whether the op returns a view of its first operand.
bool isViewOfFirst(const Op &op);

// The copies that were made.
struct Recomputation {
  int copies = 0;
  Cost cost;  // of one run of them
};

// Keeps the results of ops that may not repeat, anchors and outputs of the graph. Views follow the memory they share. A
// copy is placed before the first op of the backward pass that needs it. It has the settings of its original, the name
// "<name>/recomputed" and RecomputeType::Recomputed; its results are called "<id>___recomputed". Random ops read the
// seed of their original. Results keep their bits. O(n log n).
Recomputation recompute(Graph &graph, const RecomputeOptions &options);

}  // namespace popart::transforms
