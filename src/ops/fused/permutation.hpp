// Permuted operands and results of fused rows.
#pragma once
#include <popart/opdef.hpp>

namespace popart::ops {

// `shape` with its dimensions in the order of attribute `name`, if the op has it: dimension i of the result is
// dimension perm[i]. Fails if the attribute is no permutation of the dimensions.
Shape permuted(InferContext &c, const char *name, const Shape &shape);

}  // namespace popart::ops
