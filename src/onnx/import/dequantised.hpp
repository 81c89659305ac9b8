// Quantised models as exporters write them: convolutions and matrix products of floats between DequantizeLinear and
// QuantizeLinear. What is quantised in the end is the product of the integers, in one op.
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// Remembers output 0 of a DequantizeLinear: `numbers`, in whole blocks along `axis` where scales have as many
// dimensions. `axis`, from 0: of scales that are many.
void rememberDequantised(const NodeContext &n, const Value &numbers, const Value &scale, const Value &zero,
                         int64_t axis);
// The right operand `b` of a product: where it is a matrix that DequantizeLinear made of constants in blocks along its
// first axis, and gradients are not asked for, what DequantizePacked makes of the packed numbers; otherwise `b`.
TensorIndex packedOperand(NodeContext &n, TensorIndex a, TensorIndex b);
// `transposed`, of the matrix `t`, stands for integers where `t` does.
void rememberTransposed(NodeContext &n, TensorIndex t, TensorIndex transposed);

// QuantizeLinear(x) with one scale to 8 bits as IntegerConv or IntegerMatMul, where x is a convolution or a matrix
// product, on request with a bias, of what DequantizeLinear made, behind it no more than bounds that saturation keeps
// (Relu where the zero point is the least number). Absent where it is something else, where gradients are asked for,
// and where a scale or the bias is not known when the graph is built. Sums of integers are exact, those of FLOAT are
// not: results differ by one where a sum lies at a half. A bias of floats becomes one of integers if that moves no
// result by more than kMostBiasShift of its steps.
constexpr double kMostBiasShift = 1.0 / 64;
Value quantisedProduct(NodeContext &n, const Value &x, const Value &scale, const Value &zero);

}  // namespace popart::onnx
