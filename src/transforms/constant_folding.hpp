// foldConstants: computes ops that depend only on constants and shapes at compile time. Values are bit by bit those of
// the reference backend; ids of tensors do not change. Variables are never folded.
#pragma once
#include <popart/graph.hpp>

#include "ops/constant_evaluation.hpp"

namespace popart::transforms {

// Folds, in topological order, every op whose inputs are all Const, and always Shape and Size (the rules of
// isFoldable).
// Ops that the evaluator refuses stay. Constants that only folded ops read are erased. Returns the number of folded
// ops.
int foldConstants(Graph &graph, const EvaluateOp &evaluate);

}  // namespace popart::transforms
