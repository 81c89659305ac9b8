// The end of an epilogue as a program of the element engine: any straight-line computation on the finished values, on
// matrices with the product's shape, on rows (one value for each column) and on single values.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <popart/graph.hpp>

#include "backends/cpu/element_compile.hpp"
#include "backends/cpu/kernels/epilogue.hpp"

namespace popart::cpu {

// Shared by all runs of a kernel. Invariant: every element is computed as by the element-wise ops alone.
class CompiledEpilogue {
 public:
  // How elements of an operand correspond to elements of the product.
  enum class Access : uint8_t { kMatrix, kRow, kOne };
  struct Operand {
    int extra = 0;  // number among the epilogue's operands
    Access access = Access::kMatrix;
  };

  // `source`: its first input is the product's value, of `type`; the others are `operands`, in order. results[o]:
  // output of the epilogue that output o of `source` is. nullptr and a reason if an op has no instruction.
  static std::shared_ptr<const CompiledEpilogue> compile(const ElementSource &source, std::vector<Operand> operands,
                                                         std::vector<int> results, std::string &reason);
  // A multiple of 64.
  int64_t scratchBytes() const;
  // Whether result `output` may be written over operand `extra`. The same for a matrix of the values' type that is read
  // before the program runs.
  bool canOverwrite(int extra, int output) const;
  bool canOverwriteValue(int output) const;
  bool reads(int extra) const;
  // Operands with the product's shape.
  std::vector<int> matrices() const;

 private:
  friend class BoundEpilogue;
  int64_t blockBytes() const;  // of arguments, operands and results
  ElementProgram program_;
  std::vector<Operand> operands_;
  std::vector<int> results_;
  int valueBytes_ = 4;  // per element
};

// The epilogue bound to the memory of one call.
class BoundEpilogue final : public EpilogueProgram {
 public:
  // `extras` are the epilogue's operands, `out` the op's results; `scratch`: scratchBytes(), aligned to 64.
  BoundEpilogue(const CompiledEpilogue &compiled, const void *const *extras, void *const *out, void *scratch) noexcept;
  void *arguments() noexcept override { return scratch_; }
  void apply(ptrdiff_t offset, ptrdiff_t stride, int64_t column, int64_t rows, int64_t cols) noexcept override;
  void prefetch(ptrdiff_t offset, ptrdiff_t stride, int64_t rows, int64_t cols) const noexcept override;

 private:
  const CompiledEpilogue &compiled_;
  const void *const *extras_;
  void *const *out_;
  char *scratch_;
  ElementRuns runs_;
};

}  // namespace popart::cpu
