// Sums and extremes over rows or columns of float32 matrices, vectorised per instruction set.
// Invariant: the order of combination depends on the lengths and the instruction set only.
#pragma once

#include <cstdint>

namespace popart::cpu {

// kSum x, kSumSquare x², kSumAbs |x|, kMax and kMin (NaN wins).
enum class ReduceOp : uint8_t { kSum, kSumSquare, kSumAbs, kMax, kMin };

// The result over no elements: 0, or minus or plus infinity.
float reduceIdentity(ReduceOp op);
// Combination of two results.
float reduceCombine(ReduceOp op, float a, float b);
// Over `count` consecutive elements.
float reduceRow(ReduceOp op, const float *x, int64_t count) noexcept;
// out[c] for columns [0, columns): over `rows` elements x[r * stride + c].
void reduceColumns(ReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns, float *out) noexcept;

}  // namespace popart::cpu
