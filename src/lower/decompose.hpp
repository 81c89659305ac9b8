// decompose: expands every op that the first backend has no kernel for but whose row knows how to build it from other
// rows.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"
#include "ops/constant_evaluation.hpp"

namespace popart::lower {

// Every flat graph of the program, until a fixed point is reached.
void decompose(Ir &flat, const executable::Backend &backend);

// Computes the transposes of large constants that the importer did not fold (kFoldTransposeBytes), and what
// depends on them and constants alone, except those that only matrix products read.
void foldLargeTransposes(Ir &flat, const EvaluateOp &evaluate);

// Removes no-ops: Identity-like views of equal shape, single-input Sum, double negations, slices and transposes, casts
// from 16 bits to FLOAT and back (around a transpose, too), unused ops without side effects, unread statistics of
// batches with what is read for them alone, and merges equal ops on equal inputs (never random or host ops).
void simplify(Ir &flat);

}  // namespace popart::lower
