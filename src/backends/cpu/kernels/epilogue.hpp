// The epilogue of a product, applied to each finished sum before the store: scaling, bias, residual, two instructions
// of the element engine, or a parameter update.
//
// Every step is one separately rounded float32 operation in the documented order, and the instructions are those of the
// element engine; so fusing a chain of operators does not change a bit of its result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/vector/element_ops.hpp"

namespace popart::cpu {

// A float instruction of one operand (the value) or two (the value, then a matrix). kCopy changes nothing.
struct EpilogueStep {
  ElementOp op = ElementOp::kCopy;
  std::array<float, 2> parameters = {0, 0};
};

//   v = alpha * sum[m, n] + bias[n] + residual[m, n]     added from left to right
//   v = activation(v)
//   y[m, n] = last(v, other[m, n])
// Absent terms (nullptr, alpha 1, kCopy) are not computed. The matrices (M, N) have the strides of y, and residual and
// other may alias y.
struct Epilogue {
  const float *bias = nullptr;  // (N)
  const float *residual = nullptr;
  float *preActivation = nullptr;  // receives the argument of the activation
  const float *other = nullptr;    // the second operand of `last`; in backward products what the activation saved
  float alpha = 1.0f;
  EpilogueStep activation;
  EpilogueStep last;

  bool isStore() const {
    return !bias && !residual && !preActivation && !other && alpha == 1.0f && activation.op == ElementOp::kCopy;
  }
  // The epilogue of the block that begins at element `offset` of y, in column `column`.
  Epilogue at(ptrdiff_t offset, int64_t column) const {
    Epilogue e = *this;
    if (bias) e.bias += column;
    if (residual) e.residual += offset;
    if (preActivation) e.preActivation += offset;
    if (other) e.other += offset;
    return e;
  }
};

// Writes rows x cols finished sums through the epilogue; all pointers of `e` and `y` point at the block's first
// element.
void applyEpilogue(const Epilogue &e, const float *sums, ptrdiff_t sumStride, float *y, ptrdiff_t yStride, int64_t rows,
                   int64_t cols) noexcept;

// The update of an optimizer over elements of its state, compiled by the caller; the gradient is one of its operands.
class ElementUpdate {
 public:
  // Updates elements [position, position + count) of every state array, in memory order, with the gradients
  // gradient[0, count).
  virtual void apply(const float *gradient, int64_t position, int64_t count) const noexcept = 0;
  // Prefetches what apply will read of the same elements.
  virtual void prefetch(int64_t position, int64_t count) const noexcept = 0;
  // Zeroes the same elements of every result: padding lanes of a packed array.
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
