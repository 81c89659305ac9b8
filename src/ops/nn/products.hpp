// Rules shared by the rows of products in matmul.cpp, conv.cpp and integer_product.cpp.
#pragma once
#include <popart/op.hpp>

namespace popart::ops {

// A product with FLOAT8 operands, of either format, has the log2 scale of the result as input 2, an INT32 scalar.
// Operands of other types must have one type and no such input. Fails otherwise.
void requireProductTypes(const InferContext &c);
// The type of a product's result: FLOAT16 for FLOAT8 operands, otherwise that of the operands.
DataType productType(const InferContext &c);
// Whether the op is a product of FLOAT8 operands.
bool isScaledProduct(const Op &op);
// Throws popart::error for a product of FLOAT8 operands: it has no gradient.
void requireDifferentiableProduct(const Op &op);

// Attributes of a convolution: those of its window, kernel_shape and group.
OpDef &convAttributes(OpDef &row);
// The shape of the convolution of inputs 0 (N, C, d…) and 1 (M, C / group, k…); completes its attributes. Fails if the
// shapes do not match.
Shape convolutionShape(InferContext &c);

// Whether the op is a matrix product, a convolution, or a gradient of one.
bool isProduct(const Op &op);

}  // namespace popart::ops
