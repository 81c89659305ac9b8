// What rows of products share: those of matmul.cpp, conv.cpp and integer_product.cpp.
#pragma once
#include <popart/op.hpp>

namespace popart::ops {

// FLOAT8 operands of a product, of either format, come with the log2 scale of the result as input 2, an INT32 scalar;
// operands of other types are of one type, and without. Fails otherwise.
void requireProductTypes(const InferContext &c);
// The type of a product's result: FLOAT16 of FLOAT8 operands, that of the operands otherwise.
DataType productType(const InferContext &c);
// Whether the op is such a product of FLOAT8 operands.
bool isScaledProduct(const Op &op);
// Throws popart::error for one: it has no gradient.
void requireDifferentiableProduct(const Op &op);

// Attributes of a convolution: those of its window, kernel_shape and group.
OpDef &convAttributes(OpDef &row);
// The shape of the convolution of inputs 0 (N, C, d…) and 1 (M, C / group, k…), whose attributes are completed. Fails
// where they do not fit.
Shape convolutionShape(InferContext &c);

// Whether the op sums products of two operands: a matrix product, a convolution, or a gradient of one.
bool isProduct(const Op &op);

}  // namespace popart::ops
