// Matches the epilogue graph of a FusedMatMul or FusedConv to the epilogue of kernels/epilogue.hpp.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <popart/graph.hpp>

#include "backends/cpu/epilogue_program.hpp"
#include "backends/cpu/kernels/epilogue.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

// A scalar of the epilogue: a constant, or the run-time value of extra operand `operand`.
struct ScalarSource {
  float value = 0;
  int operand = -1;
  float sign = 1;
  float read(const void *const *extras) const {
    return operand < 0 ? value : sign * *static_cast<const float *>(extras[operand]);
  }
};

// Operand numbers count body inputs after the product (0 = first extra); -1: none. Output numbers count body outputs.

// value = alpha · product + bias + residual, followed by `step` in registers or by the program.
struct MatchedEpilogue {
  std::optional<ScalarSource> alpha;
  int bias = -1;
  int residual = -1;
  int other = -1;
  EpilogueStep step;
  std::shared_ptr<const CompiledEpilogue> program;
  int preActivationOutput = -1;  // output of the value
  int output = 0;
  DataType type = DataType::FLOAT;  // of the value and, without a program, of all operands and results

  // Calls run(const Epilogue &, scratch) with the epilogue bound to the memory of one call. Its operands are args.in
  // from `firstExtra` on. The call's scratch memory begins with scratchBytes(), a multiple of 64, for the program; run
  // gets the rest.
  template <class Run>
  void bind(const executable::KernelArgs &args, int firstExtra, const Run &run) const noexcept {
    Epilogue e = terms(args.in + firstExtra, args.out);
    if (!program) return run(e, static_cast<float *>(args.scratch));
    BoundEpilogue bound(*program, args.in + firstExtra, args.out, args.scratch);
    e.program = &bound;
    run(e, reinterpret_cast<float *>(static_cast<char *>(args.scratch) + scratchBytes()));
  }
  int64_t scratchBytes() const { return program ? program->scratchBytes() : 0; }
  // Whether output `result` may overwrite extra operand `operand`.
  bool canOverwrite(int operand, int result) const;
  // Operands with the product's shape.
  std::vector<int> matrices() const;

 private:
  Epilogue terms(const void *const *extras, void *const *out) const;
};

// The product added to or subtracted from a tensor, as the only result: decay · parameter − rate · product. This is
// plain gradient descent, or a sum of gradients (a rate of −1).
struct MatchedDescent {
  int parameter = -1;
  ScalarSource rate, decay;
};

// Which logical dimension of the product becomes the kernel's columns: the last one, or channels (N, C, spatial…).
enum class RowAxis : uint8_t { Last, Channels };
// Whether a block of the kernel has a column for each element of a row operand, or uses one element of it for the whole
// block.
enum class RowOperands : uint8_t { kByColumn, kOne };
// What may be computed from the value: one instruction in registers, or any program.
enum class EpilogueForm : uint8_t { kRegisters, kAny };

struct EpilogueTarget {
  int64_t columns = 0;  // N of the product
  RowAxis axis = RowAxis::Last;
  bool hasBias = false;  // the product itself has a bias, which is added before the epilogue's alpha and bias
  RowOperands rows = RowOperands::kByColumn;
  EpilogueForm form = EpilogueForm::kAny;
};

// nullopt and a reason if the graph computes something else, or not in FLOAT or a 16-bit type (a descent: FLOAT).
std::optional<MatchedEpilogue> matchEpilogue(const Graph &body, const EpilogueTarget &target, std::string &reason);
std::optional<MatchedDescent> matchDescent(const Graph &body, std::string &reason);

}  // namespace popart::cpu
