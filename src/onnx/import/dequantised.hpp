// Quantised models as exporters write them: convolutions and matrix products of floats between DequantizeLinear and
// QuantizeLinear. They become one op: the product of the integers, with its result quantised.
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// Records output 0 of a DequantizeLinear: `numbers`, in whole blocks along `axis` if scales have the same number of
// dimensions. `axis`, from 0: the axis of the scales if there are several.
void rememberDequantised(const NodeContext &n, const Value &numbers, const Value &scale, const Value &zero,
                         int64_t axis);
// The right operand `b` of a product. If it is a matrix that DequantizeLinear made from constants in blocks along its
// first axis, and no gradients are needed, the result is that of DequantizePacked on the packed numbers; otherwise `b`.
TensorIndex packedOperand(NodeContext &n, TensorIndex a, TensorIndex b);
// `transposed`, the transpose of the matrix `t`, represents integers if `t` does.
void rememberTransposed(NodeContext &n, TensorIndex t, TensorIndex transposed);

// QuantizeLinear(x) with one scale to 8 bits as IntegerConv or IntegerMatMul. x must be a convolution or a matrix
// product of results of DequantizeLinear, with or without a bias, followed at most by bounds that saturation implies
// (Relu if the zero point is the least number). Absent if x is something else, if gradients are needed, or if a scale
// or the bias is not known when the graph is built. Sums of integers are exact, those of FLOAT are not: results differ
// by one if a sum is at a half. A float bias becomes an integer one if that changes no result by more than
// kMostBiasShift of its steps.
constexpr double kMostBiasShift = 1.0 / 64;
Value quantisedProduct(NodeContext &n, const Value &x, const Value &scale, const Value &zero);

}  // namespace popart::onnx
