// Row-wise kernels over contiguous float32 matrices (rows, cols): softmax and layer normalisation.
// Callers may partition by rows (or columns) in any way.
// Invariant: the order of a row's sums depends only on cols and the instruction set; a column's sum is one ascending
// chain over the rows. The partition never changes a bit.
#pragma once

#include <cstdint>

#include <popart/datatype.hpp>

namespace popart::cpu {

// Whether a softmax kernel works on probabilities or on their logarithms.
enum class SoftmaxForm { kProbability, kLogarithm };

// y = exp(x - max) / sum exp(x - max) per row, or x - max - log(sum ...). y may be x. Rows of only -inf, or with NaN,
// give NaN.
void softmaxRows(SoftmaxForm form, const float *x, float *y, int64_t rows, int64_t cols) noexcept;

// From the output y: dx = y * (dy - sum(y * dy)), or dy - exp(y) * sum(dy). dx may be dy.
void softmaxGradientRows(SoftmaxForm form, const float *y, const float *dy, float *dx, int64_t rows,
                         int64_t cols) noexcept;

// The value that is subtracted from a row before the division: its mean (ONNX LayerNormalization-17), or nothing
// (RMSNormalization-23).
enum class NormForm : uint8_t { kCentred, kRootMeanSquare };

// mean = sum(x) / cols, or 0 in the form kRootMeanSquare; inverseDeviation = 1 / sqrt(sum((x - mean)^2) / cols +
// epsilon); y = (x - mean) * inverseDeviation * scale + bias. Writes mean and inverseDeviation (rows). scale and bias
// (cols) may be nullptr, and y if it is not needed. y may be x.
struct LayerNorm {
  const float *scale = nullptr;
  const float *bias = nullptr;
  float epsilon = 1e-5f;
  NormForm form = NormForm::kCentred;
};
void layerNormRows(const LayerNorm &norm, const float *x, float *y, float *mean, float *inverseDeviation, int64_t rows,
                   int64_t cols) noexcept;

// y = (x - mean) * scale + shift over one row. y may be x.
void normaliseRow(const float *x, float *y, int64_t cols, float mean, float scale, float shift) noexcept;

// Over one row: the sum of dy, and the sum of dy (x - mean).
struct RowSums {
  float sum, dot;
};
RowSums gradientSumsOfRow(const float *dy, const float *x, int64_t cols, float mean) noexcept;
// dx = dy * scale - (x - mean) * slope - shift over one row. dx may be dy or x.
struct RowGradient {
  float mean, scale, slope, shift;
};
void normaliseGradientRow(const RowGradient &row, const float *dy, const float *x, float *dx, int64_t cols) noexcept;

// g = dy * scale, h = (x - mean) * inverseDeviation; dx = inverseDeviation * (g - sum(g) / cols - h * sum(g * h) /
// cols), without sum(g) in the form kRootMeanSquare. dx may be dy or x.
void layerNormGradientRows(const LayerNorm &norm, const float *x, const float *dy, const float *mean,
                           const float *inverseDeviation, float *dx, int64_t rows, int64_t cols) noexcept;

// dScale[c] = sum over rows of dy * h, dBias[c] = sum over rows of dy, for columns [begin, end) of matrices with `cols`
// columns. dBias may be nullptr. `type`: of x and dy, FLOAT or 16 bits; `parameters`: of dScale and dBias, FLOAT or
// that type.
void layerNormParameterGradient(DataType type, const void *x, const void *dy, const float *mean,
                                const float *inverseDeviation, DataType parameters, void *dScale, void *dBias,
                                int64_t rows, int64_t cols, int64_t begin, int64_t end) noexcept;

}  // namespace popart::cpu
