// decomposeSums: n-ary sums become additions into one accumulator.
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

//   Sum(a, b, c) -> y   becomes   Init(zero) -> y0; y0 += a; y0 += b; y0 += c -> y
// Ids and uses of y stay. Needs all terms to have the shape of y (true for sums of gradients): other sums stay as they
// are.
void decomposeSums(Graph &graph);

}  // namespace popart::transforms
