// foldConstants: computes at compile time what depends on constants and shapes only. Values stay the same to the bit of
// the reference backend; ids of the tensors stay. Variables are never folded.
#pragma once
#include <popart/graph.hpp>

#include "ops/constant_evaluation.hpp"

namespace popart::transforms {

// Folds, in topological order, every op whose inputs are all Const, and Shape and Size always (the rules of
// isFoldable). Ops the evaluator refuses stay. Constants that only fed folded ops are erased. Returns the number of ops
// folded.
int foldConstants(Graph &graph, const EvaluateOp &evaluate);

}  // namespace popart::transforms
