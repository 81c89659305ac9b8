// Products that Builder::setSerializeMatMul marks, cut into parts that run one after the other:
//   input_channels    y = Concat_j(a_j b)       a_j: rows of a
//   output_channels   y = Concat_j(a b_j)       b_j: columns of b
//   reducing_dim      y = sum_j(a_j b_j)        a_j: columns of a, b_j: rows of b
// Differentiation then gives the gradients in parts by itself. `weightParts` finds the weights that can be updated part
// by part; `placeParts` sees to it that no part is in memory before it is needed.
#pragma once
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// Cuts all marked products of the graph. Parts carry the hint kSerialised and no mark. Throws popart::error for a mark
// with less than one part, operands that are not both of rank 2 or both of rank 3, and a dimension that is no multiple
// of the number of parts.
void serialiseProducts(Graph &graph);

// Elements start to end along `axis` of a tensor, and the tensor that holds them.
struct TensorPart {
  TensorIndex value;
  int64_t axis = 0, start = 0, end = 0;
};
// The parts of a variable that nothing but the parts of one product reads, in order; empty for other variables.
std::vector<TensorPart> weightParts(const Graph &graph, TensorIndex variable);

// After differentiation: parts are cut where they are read, each reader from a cut of its own, and sums of parts become
// additions into one accumulator, in FLOAT where keep_precision asks for it. Running it again changes nothing.
void placeParts(Graph &graph);

}  // namespace popart::transforms
