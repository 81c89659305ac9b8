// Divides products that Builder::setSerializeMatMul marks into parts that run one after the other:
//   input_channels    y = Concat_j(a_j b)       a_j: rows of a
//   output_channels   y = Concat_j(a b_j)       b_j: columns of b
//   reducing_dim      y = sum_j(a_j b_j)        a_j: columns of a, b_j: rows of b
// Differentiation then makes gradients in parts. `weightParts` finds the weights that can be updated part by part;
// `placeParts` ensures that no part is in memory before it is needed.
#pragma once
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// Divides all marked products of the graph. Parts have the hint kSerialised and no mark. Throws popart::error for a
// mark with fewer than one part, operands that are not both of rank 2 or both of rank 3, and a dimension that is not a
// multiple of the number of parts.
void serialiseProducts(Graph &graph);

// Elements start to end along `axis` of a tensor, and the tensor with these elements.
struct TensorPart {
  TensorIndex value;
  int64_t axis = 0, start = 0, end = 0;
};
// The parts, in order, of a variable that only the parts of one product read; empty for other variables.
std::vector<TensorPart> weightParts(const Graph &graph, TensorIndex variable);

// After differentiation: slices each operand where it is read, once for each reader, and turns sums of parts into
// additions to one accumulator, in FLOAT if keep_precision requires it. Running it again changes nothing.
void placeParts(Graph &graph);

}  // namespace popart::transforms
