// Sums and extremes over rows or columns of float32 matrices, vectorised per instruction set.
// Invariant: the order of combination depends only on the lengths and the instruction set.
#pragma once

#include <cstdint>

namespace popart::cpu {

// kSum x, kSumSquare x², kSumAbs |x|, kSumExp e^(x - shift), kSumDistance (x - shift)², kMax and kMin (NaN wins).
enum class ReduceOp : uint8_t { kSum, kSumSquare, kSumAbs, kSumExp, kSumDistance, kMax, kMin };
// Operations that compute in double, because partial results may exceed the range of float.
enum class DoubleReduceOp : uint8_t { kSum, kProduct };

// The result for no elements: 0 (1 for a product), or minus or plus infinity.
float reduceIdentity(ReduceOp op);
double reduceIdentity(DoubleReduceOp op);
// Combination of two results.
float reduceCombine(ReduceOp op, float a, float b);
double reduceCombine(DoubleReduceOp op, double a, double b);
// Over `count` contiguous elements. Only kSumExp and kSumDistance use `shift`.
float reduceRow(ReduceOp op, const float *x, int64_t count, float shift = 0) noexcept;
double reduceRow(DoubleReduceOp op, const float *x, int64_t count) noexcept;
// The same for each of `rows` rows of `count` elements, which are contiguous. Not for kSumExp and kSumDistance.
void reduceRows(ReduceOp op, const float *x, int64_t rows, int64_t count, float *out) noexcept;
void reduceRows(DoubleReduceOp op, const float *x, int64_t rows, int64_t count, double *out) noexcept;
// Both extremes of `count` contiguous elements, in one pass; NaN wins both.
struct RowExtremes {
  float least, greatest;
};
RowExtremes reduceRowExtremes(const float *x, int64_t count) noexcept;
// out[c] for columns [0, columns): over `rows` elements x[r * stride + c]. Only kSumExp and kSumDistance use shift[c].
void reduceColumns(ReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns, float *out,
                   const float *shift = nullptr) noexcept;
void reduceColumns(DoubleReduceOp op, const float *x, int64_t stride, int64_t rows, int64_t columns,
                   double *out) noexcept;

}  // namespace popart::cpu
