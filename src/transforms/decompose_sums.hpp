// Sums of many terms as additions, so that terms need not be in memory together.
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

//   Sum(a, b, c) -> y   becomes   Init(zero) -> y0; y0 += a; y0 += b; y0 += c -> y
// Ids and uses of y stay. Needs all terms to have the shape of y (true for sums of gradients): other sums stay as they
// are.
void decomposeSums(Graph &graph);

//   Sum(a, b, c) -> Gradient___y   becomes   Add(a, b) -> y1; Add(y1, c) -> Gradient___y
// for sums of three or more gradients. Each addition runs as soon as its last term is there. Ids and uses of the sum's
// output stay; other sums stay as they are.
void decomposeGradientSums(Graph &graph);
// The same for one sum of any tensors of one type and shape. Nothing happens for another op, or for fewer than three
// terms.
void decomposeSum(Graph &graph, Op &sum);

}  // namespace popart::transforms
