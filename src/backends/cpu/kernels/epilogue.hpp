// The epilogue of a product, applied to each finished sum before the store: scaling, bias, residual, two instructions
// of the element engine, or a parameter update.
//
// Every step is one separately rounded float32 operation in the documented order, and the instructions are those of the
// element engine; so fusing a chain of operators does not change a bit of its result. With a 16-bit type, the sum and
// the result of every step are rounded to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/halves.hpp"
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
// other may alias y. All arrays, y too, are of `type`: FLOAT, FLOAT16 or BFLOAT16.
struct Epilogue {
  const void *bias = nullptr;  // (N)
  const void *residual = nullptr;
  void *preActivation = nullptr;  // receives the argument of the activation
  const void *other = nullptr;    // the second operand of `last`; in backward products what the activation saved
  float alpha = 1.0f;
  EpilogueStep activation;
  EpilogueStep last;
  DataType type = DataType::FLOAT;
  bool addsBiasExactly = false;  // the bias belongs to the product: its sum is not rounded before

  // Whether sums are stored as they are.
  bool isStore() const {
    return type == DataType::FLOAT && !bias && !residual && !preActivation && !other && alpha == 1.0f &&
           activation.op == ElementOp::kCopy;
  }
  // The epilogue of the block that begins at element `offset` of y, in column `column`.
  Epilogue at(ptrdiff_t offset, int64_t column) const {
    Epilogue e = *this;
    if (bias) e.bias = elementAt(bias, column, type);
    if (residual) e.residual = elementAt(residual, offset, type);
    if (preActivation) e.preActivation = elementAt(preActivation, offset, type);
    if (other) e.other = elementAt(other, offset, type);
    return e;
  }
};

// Writes rows x cols finished sums through the epilogue; all pointers of `e` and `y` point at the block's first
// element.
void applyEpilogue(const Epilogue &e, const float *sums, ptrdiff_t sumStride, void *y, ptrdiff_t yStride, int64_t rows,
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
  float *base = nullptr;  // kElements, 16 bits: element 0 of the whole parameter, from which positions count
  // Of the parameter. 16 bits: gradients are rounded to it first (not with kSgd).
  DataType type = DataType::FLOAT;
};

// Applies `u` to rows x cols gradients. Where positions count, element i of the parameter is called w = base + i,
// whatever its size.
void applyUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, ptrdiff_t wStride,
                 int64_t rows, int64_t cols) noexcept;

// The same for rows of one packed panel, `width` floats each: lanes beyond `cols` become zero.
void applyPanelUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, int64_t width,
                      int64_t rows, int64_t cols) noexcept;

}  // namespace popart::cpu
