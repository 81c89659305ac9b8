// decompose: expands every op for which the first backend has no kernel, but whose row says how to build it from other
// rows.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"
#include "ops/constant_evaluation.hpp"

namespace popart::lower {

// Expands ops in every flat graph of the program, until nothing changes.
void decompose(Ir &flat, const executable::Backend &backend);

// Computes the transposes of large constants that the importer did not fold (kFoldTransposeBytes), and ops that depend
// only on them and on constants, except transposes that only matrix products read.
void foldLargeTransposes(Ir &flat, const EvaluateOp &evaluate);

// Removes ops that compute nothing: identity-like views of equal shape, single-input Sum, double negations, slices of
// slices, pairs of transposes, casts from 16 bits to FLOAT and back (also around a transpose), unused ops without side
// effects, unread statistics of batches with the ops that only they need. Merges equal ops (never random or host ops).
void simplify(Ir &flat);

}  // namespace popart::lower
