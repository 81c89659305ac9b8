// Quantised values: what the operators of ai.onnx and com.microsoft share.
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// x rounded (halves to even), moved by the zero point, which may be absent, within the range of `type`. Throws
// popart::error for a type that values are not quantised to.
Value saturated(const Value &x, const Value &zero, DataType type);
// x - zero in FLOAT, which holds differences of up to 16 bits; `zero` may be absent.
Value dequantised(const Value &x, const Value &zero);

// Numbers of UINT8, whose values are (numbers - zero) scale.
struct QuantisedValue {
  Value numbers, scale, zero;
};
// x by its own range, to which 0 belongs, as DynamicQuantizeLinear has it; all zeros have scale 1.
QuantisedValue quantisedByRange(const Value &x);

// How a product ends, see IntegerMatMul; absent: in INT32.
struct Ending {
  Value bias, scale, zero;
};

// The product of UINT8 or INT8 without their zero points, which may be absent. As in NumPy's matmul, a list is one row,
// on the right one column, which the result does not have. Throws popart::error where the operands do not fit.
Value integerProduct(const NodeContext &n, const Value &a, const Value &b, const Value &zeroA, const Value &zeroB,
                     const Ending &ending = {});
// The product of their values, in FLOAT: one scale of a, one or one for each column of b.
Value scaledProduct(const Value &a, const Value &b, const Value &scaleA, const Value &scaleB, const Value &zeroA,
                    const Value &zeroB);

}  // namespace popart::onnx
