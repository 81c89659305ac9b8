// Quantised values: the parts that the operators of ai.onnx and com.microsoft share.
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// x rounded (halves to even), plus the zero point (may be absent), limited to the range of `type`. Throws popart::error
// for a type that is not used for quantised values.
Value saturated(const Value &x, const Value &zero, DataType type);
// x - zero in FLOAT, which holds differences of up to 16 bits; `zero` may be absent.
Value dequantised(const Value &x, const Value &zero);

// UINT8 numbers with the values (numbers - zero) scale.
struct QuantisedValue {
  Value numbers, scale, zero;
};
// Quantises x by its range, extended to include 0, as in DynamicQuantizeLinear; if all elements are zero, the scale is
// 1.
QuantisedValue quantisedByRange(const Value &x);

// The final steps of a product, see IntegerMatMul; absent: the result is INT32.
struct Ending {
  Value bias, scale, zero;
};

// The product of UINT8 or INT8 values minus their zero points, which may be absent. As in NumPy's matmul, a vector is
// one row (on the right one column), which the result does not have. Throws popart::error if the operands do not match.
Value integerProduct(const NodeContext &n, const Value &a, const Value &b, const Value &zeroA, const Value &zeroB,
                     const Ending &ending = {});
// The product of their values, in FLOAT: one scale for a, and one for b or one for each column of b.
Value scaledProduct(const Value &a, const Value &b, const Value &scaleA, const Value &scaleB, const Value &zeroA,
                    const Value &zeroB);

}  // namespace popart::onnx
