// A fact that rows of products share: those of matmul.cpp and conv.cpp.
#pragma once
#include <popart/op.hpp>

namespace popart::ops {

// Whether the op sums products of two operands: a matrix product, a convolution, or a gradient of one.
bool isProduct(const Op &op);

}  // namespace popart::ops
