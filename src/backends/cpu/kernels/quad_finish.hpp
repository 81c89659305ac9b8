// How integer products end: sums in INT32 get a bias and a scale, and are quantised, as IntegerMatMul and IntegerConv
// say (ops/nn/integer_product.cpp); every step is rounded to float32.
#pragma once
#include <cstddef>
#include <cstdint>

namespace popart::cpu {

enum class QuadResult : uint8_t { kInt32, kFloat, kUint8, kInt8 };

struct QuadFinish {
  const int32_t *bias = nullptr;                 // null: none
  const float *scale = nullptr;                  // null: kInt32
  bool biasIsEach = false, scaleIsEach = false;  // one for each column, else one for all
  float zero = 0;                                // of a quantised result
  QuadResult result = QuadResult::kInt32;

  // That of columns from `column` on.
  QuadFinish from(int64_t column) const {
    QuadFinish f = *this;
    if (bias && biasIsEach) f.bias += column;
    if (scale && scaleIsEach) f.scale += column;
    return f;
  }
};

// out[r, c] from sums[r, c]; outStride in elements. sums may be read up to 16 columns beyond; out may be sums where the
// result is INT32.
void finishSums(const QuadFinish &finish, const int32_t *sums, ptrdiff_t sumStride, int64_t rows, int64_t columns,
                void *out, ptrdiff_t outStride) noexcept;

}  // namespace popart::cpu
