// Splits sums of many terms into additions, so that not all terms have to be in memory at the same time.
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

//   Sum(a, b, c) -> y   becomes   Init(zero) -> y0; y0 += a; y0 += b; y0 += c -> y
// Ids and uses of y do not change. Only for sums whose terms all have the shape of y, as for gradients; other sums do
// not change.
void decomposeSums(Graph &graph);

//   Sum(a, b, c) -> Gradient___y   becomes   Add(a, b) -> y1; Add(y1, c) -> Gradient___y
// for sums of three or more gradients. Each addition runs as soon as its last term is computed. Ids and uses of the
// sum's output do not change.
void decomposeGradientSums(Graph &graph);
// The same for one sum of tensors with the same type and shape. Does nothing for other ops, or for fewer than three
// terms.
void decomposeSum(Graph &graph, Op &sum);

}  // namespace popart::transforms
