// The epilogue of a product, applied to each finished sum before the store: scaling, bias, residual, then an
// instruction of the element engine in registers or a program of them on the tile; or a parameter update.
//
// Every step is one separately rounded float32 operation in the documented order, and the instructions are those of the
// element engine; so fusing operators does not change a bit of their results. With a 16-bit type, the sum and the
// result of every step are rounded to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"
#include "backends/cpu/vector/element_ops.hpp"

namespace popart::cpu {

// An instruction of the element engine on floats, with one operand (the value) or two (the value and a matrix). kCopy
// changes nothing.
struct EpilogueStep {
  ElementOp op = ElementOp::kCopy;
  std::array<float, 2> parameters = {0, 0};
};

// Whether products compile the instruction into their epilogue: it is in the EPILOGUE_UNARY and EPILOGUE_BINARY rows of
// element_ops.inc. All others run as programs.
bool runsInRegisters(ElementOp op);

// The end of an epilogue with more than one instruction, compiled by the caller. It processes one block of elements at
// a time, which is in the first level cache.
class EpilogueProgram {
 public:
  static constexpr int64_t kMostElements = 512;  // per block; a register tile has fewer

  // Memory for a block's arguments, row after row, that the caller fills before apply(): kMostElements of the
  // epilogue's type.
  virtual void *arguments() noexcept = 0;
  // Computes and stores the results of rows x cols elements. The block begins at element `offset` of the matrices,
  // whose rows are `stride` apart, and in column `column`.
  virtual void apply(ptrdiff_t offset, ptrdiff_t stride, int64_t column, int64_t rows, int64_t cols) noexcept = 0;
  // Prefetches the matrices that apply() will read.
  virtual void prefetch(ptrdiff_t offset, ptrdiff_t stride, int64_t rows, int64_t cols) const noexcept = 0;

 protected:
  ~EpilogueProgram() = default;
};

//   v = alpha * sum[m, n] + bias[n] + residual[m, n]     added from left to right
//   y[m, n] = step(v), or step(v, other[m, n])           or what the program computes and stores
// Absent terms (nullptr, alpha 1, kCopy) are not computed. The matrices (M, N) have the strides of y, and residual and
// other may alias y. All arrays, y too, are of `type`: FLOAT, FLOAT16 or BFLOAT16; those of a program are of any.
struct Epilogue {
  const void *bias = nullptr;  // (N)
  const void *residual = nullptr;
  void *preActivation = nullptr;  // receives v
  // The second operand of `step`; in backward products, the value that the activation saved.
  const void *other = nullptr;
  float alpha = 1.0f;
  EpilogueStep step;  // an instruction that runs in registers
  EpilogueProgram *program = nullptr;
  DataType type = DataType::FLOAT;
  // Whether the bias is part of the product: its sum is not rounded before the bias is added.
  bool addsBiasExactly = false;
  ptrdiff_t offset = 0;  // offset of the block and its first column, which the program needs
  int64_t column = 0;

  // Whether sums are stored unchanged.
  bool isStore() const {
    return type == DataType::FLOAT && !bias && !residual && !preActivation && !other && alpha == 1.0f &&
           step.op == ElementOp::kCopy && !program;
  }
  // The epilogue of a block that starts `elements` elements of y and `columns` columns after this block.
  Epilogue at(ptrdiff_t elements, int64_t columns) const {
    Epilogue e = *this;
    if (bias) e.bias = elementAt(bias, columns, type);
    if (residual) e.residual = elementAt(residual, elements, type);
    if (preActivation) e.preActivation = elementAt(preActivation, elements, type);
    if (other) e.other = elementAt(other, elements, type);
    e.offset += elements;
    e.column += columns;
    return e;
  }
};

// The epilogue of a block as the end of a register tile that covers it, with rows `stride` apart in y; nullopt if tiles
// cannot compute it.
std::optional<TileEnd> tileEnd(const Epilogue &e, ptrdiff_t stride);

// Writes rows x cols finished sums through the epilogue; all pointers of `e` and `y` point at the block's first
// element. A program writes to its own results, and y is not used.
void applyEpilogue(const Epilogue &e, const float *sums, ptrdiff_t sumStride, void *y, ptrdiff_t yStride, int64_t rows,
                   int64_t cols) noexcept;

// Copies `rows` rows of `bytes` bytes; strides are in bytes. For the short rows of a tile, one call of memcpy per row
// would take longer.
void copyRows(const char *from, ptrdiff_t fromStride, char *to, ptrdiff_t toStride, int64_t rows,
              int64_t bytes) noexcept;

// The update of an optimizer over elements of its state, compiled by the caller. The gradient is one of its operands.
class ElementUpdate {
 public:
  // Updates elements [position, position + count) of every state array, in memory order, with the gradients
  // gradient[0, count).
  virtual void apply(const float *gradient, int64_t position, int64_t count) const noexcept = 0;
  // Prefetches the memory that apply() will read for these elements.
  virtual void prefetch(int64_t position, int64_t count) const noexcept = 0;
  // Sets these elements of every result to zero: padding lanes of a packed array.
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
  ptrdiff_t source = 0;  // kSgd: the old value of w[i] is read from w[i + source]; zero updates in place
  const ElementUpdate *elements = nullptr;
  float *base = nullptr;  // kElements and 16 bits: element 0 of the whole parameter, to which positions refer
  // Of the parameter. 16 bits: gradients are first rounded to it (not with kSgd).
  DataType type = DataType::FLOAT;
};

// Applies `u` to rows x cols gradients. Where positions are counted, element i of the parameter has the address w =
// base + i, whatever its size.
void applyUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, ptrdiff_t wStride,
                 int64_t rows, int64_t cols) noexcept;

// The same for rows of one packed panel, `width` floats each; lanes after `cols` become zero.
void applyPanelUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, int64_t width,
                      int64_t rows, int64_t cols) noexcept;

}  // namespace popart::cpu
