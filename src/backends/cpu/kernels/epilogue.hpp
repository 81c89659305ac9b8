// What happens to a finished sum on its way to memory: scaling, bias, residual, activation, or a parameter update.
//
// Every step is one separately rounded float32 operation in the documented order, and the fused forms run the same code
// as the stand-alone functions below; so fusing a chain of operators does not change a bit of its result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace popart::cpu {

// kRelu max(x, 0), NaN stays NaN; kGelu x * (1 + erf(x / sqrt 2)) / 2 (ONNX Gelu-20, approximate = none);
// kGeluTanh the tanh form (ONNX Gelu-20, approximate = tanh; ai.graphcore Gelu); kSilu x * sigmoid(x).
enum class Activation { kNone, kRelu, kGelu, kGeluTanh, kSigmoid, kTanh, kSilu };

// y[m, n] = activation(alpha * sum[m, n] + beta * y[m, n] + bias[n] + residual[m, n]), added from left to right.
// Absent terms (nullptr, alpha 1, beta 0) are not computed; with beta 0 the old y is not read. residual may be y
// itself.
struct Epilogue {
  const float *bias = nullptr;      // (N)
  const float *residual = nullptr;  // (M, N), rows residualStride apart
  ptrdiff_t residualStride = 0;
  float *preActivation = nullptr;  // (M, N), receives the argument of the activation
  ptrdiff_t preActivationStride = 0;
  // Backward products: what the activation above this product saved (see applyActivationGradient); the result is
  // multiplied by that activation's slope at last.
  const float *saved = nullptr;  // (M, N)
  ptrdiff_t savedStride = 0;
  Activation savedBy = Activation::kNone;
  float alpha = 1.0f;
  float beta = 0.0f;
  Activation activation = Activation::kNone;

  bool isStore() const {
    return !bias && !residual && !preActivation && !saved && alpha == 1.0f && beta == 0.0f &&
           activation == Activation::kNone;
  }
};

// Writes rows x cols finished sums through the epilogue; all pointers of `e` and `y` point at the block's first
// element.
void applyEpilogue(const Epilogue &e, const float *sums, ptrdiff_t sumStride, float *y, ptrdiff_t yStride, int64_t rows,
                   int64_t cols) noexcept;

// y[i] = activation(x[i]); y may be x.
void applyActivation(Activation activation, const float *x, float *y, int64_t count) noexcept;

// dx[i] = dy[i] * activation'(at i). `saved` is the activation's output for kRelu, kSigmoid and kTanh, its input for
// the others. dx may be dy. At zero the slope of kRelu is zero.
void applyActivationGradient(Activation activation, const float *saved, const float *dy, float *dx,
                             int64_t count) noexcept;

// The step of an optimizer over elements of its state, as the caller compiled it; the gradient is one of its operands.
class ElementUpdate {
 public:
  // Elements [position, position + count) of every state array, counted as they lie in memory, take the step for the
  // gradients gradient[0, count).
  virtual void apply(const float *gradient, int64_t position, int64_t count) const noexcept = 0;
  // Asks the caches for what apply will read of the same elements.
  virtual void prefetch(int64_t position, int64_t count) const noexcept = 0;
  // Writes zeros over the same elements of every result: lanes of a packed array that hold no element.
  virtual void clear(int64_t position, int64_t count) const noexcept = 0;

 protected:
  ~ElementUpdate() = default;
};

// kStore        w = g
// kSgd          w = decay * w - rate * g
// kElements     whatever `elements` computes
enum class UpdateKind { kStore, kSgd, kElements };

struct Update {
  UpdateKind kind = UpdateKind::kStore;
  float rate = 0.0f;
  float decay = 1.0f;
  ptrdiff_t source = 0;  // kSgd: the old value of w[i] is read at w[i + source]; zero updates in place
  const ElementUpdate *elements = nullptr;
  const float *base = nullptr;  // kElements: element 0 of the whole parameter, from which positions count
};

// Applies `u` to rows x cols gradients.
void applyUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, ptrdiff_t wStride,
                 int64_t rows, int64_t cols) noexcept;

// The same for rows of one packed panel, `width` floats each: lanes beyond `cols` become zero.
void applyPanelUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, int64_t width,
                      int64_t rows, int64_t cols) noexcept;

}  // namespace popart::cpu
