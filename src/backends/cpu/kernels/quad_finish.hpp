// The last operations of integer products: INT32 sums get a bias and a scale, and are quantised, as IntegerMatMul and
// IntegerConv specify (ops/nn/integer_product.cpp). Every step is rounded to float32.
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart::cpu {

enum class QuadResult : uint8_t { kInt32, kFloat, kUint8, kInt8 };

struct QuadFinish {
  const int32_t *bias = nullptr;                 // null: none
  const float *scale = nullptr;                  // null: the result is INT32
  bool biasIsEach = false, scaleIsEach = false;  // one per column, or one for all
  float zero = 0;                                // zero point of a quantised result
  QuadResult result = QuadResult::kInt32;

  // The operations for columns from `column` on.
  QuadFinish from(int64_t column) const {
    QuadFinish f = *this;
    if (bias && biasIsEach) f.bias += column;
    if (scale && scaleIsEach) f.scale += column;
    return f;
  }
};

// Computes out[r, c] from sums[r, c]; outStride is in elements. Reads sums up to 16 columns beyond the last one. out
// may be sums if the result is INT32.
void finishSums(const QuadFinish &finish, const int32_t *sums, ptrdiff_t sumStride, int64_t rows, int64_t columns,
                void *out, ptrdiff_t outStride) noexcept;

}  // namespace popart::cpu
