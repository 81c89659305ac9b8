// Element-wise ops on the operand of a convolution, computed pixel by pixel when the convolution copies it: their
// result never reaches memory.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <popart/graph.hpp>

#include "backends/cpu/element_compile.hpp"
#include "backends/cpu/kernels/gemm.hpp"

namespace popart::cpu {

// Shared by all runs of a kernel. Invariant: every element is computed as by the element-wise ops alone.
class CompiledPrologue {
 public:
  // `body` computes one value of the shape of its first input (N, C, spatial…), which is channels last like all
  // operands of that shape. The other operands have one value for each channel, one for each channel of each image, or
  // a single one. `pixelStride`: elements between pixels of the first input. nullptr and a reason for other bodies.
  static std::shared_ptr<const CompiledPrologue> compile(const Graph &body, int64_t pixelStride, std::string &reason);
  int64_t scratchBytes() const { return program_.scratchBytes(); }

 private:
  friend class BoundPrologue;
  // Elements of an operand from one row of A to the next, and from one image to the next; columns are contiguous unless
  // the operand is a single value.
  struct Operand {
    int64_t rowStride = 0, imageStride = 0;
    bool isOne = false;
  };
  ElementProgram program_;
  std::vector<Operand> operands_;  // by input of the body
  int64_t pixels_ = 1;             // rows per image
};

// The prologue bound to the memory of one call.
class BoundPrologue final : public RowProgram {
 public:
  // `x` is the body's first input, `extras` the others; `scratch`: scratchBytes().
  BoundPrologue(const CompiledPrologue &compiled, const void *x, const void *const *extras, void *scratch) noexcept
      : compiled_(compiled), x_(x), extras_(extras), runs_(compiled.program_, scratch) {}
  void run(int64_t row, int64_t rows, int64_t column, int64_t count, float *to, ptrdiff_t stride) noexcept override;

 private:
  const char *at(size_t operand, int64_t image, int64_t pixel, int64_t column) const noexcept;
  const CompiledPrologue &compiled_;
  const void *x_;
  const void *const *extras_;
  ElementRuns runs_;
};

}  // namespace popart::cpu
