// Shared by the kernels of integer products: the stack of matrices, and the table of all these kernels.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/kernels/quad_finish.hpp"
#include "executable/host_kernel.hpp"

namespace popart::cpu {

struct IntegerProblem {
  int64_t rows, depth, columns;
  std::vector<int64_t> a, b;  // offset of each matrix of the stack, in elements
};

// For IntegerMatMul. If the whole stack has one right operand, all rows belong to one matrix.
IntegerProblem integerProblem(const executable::KernelRequest &request);

// The last operations of the op: which of the inputs bias, scale and y_zero it has, and the type of the result.
class QuadEnding {
 public:
  explicit QuadEnding(const executable::KernelRequest &request);

  // Whether the result is the unchanged sums.
  bool isStore() const { return result_ == QuadResult::kInt32 && !has_[0]; }
  QuadResult result() const { return result_; }
  int64_t elementBytes() const { return result_ == QuadResult::kInt32 || result_ == QuadResult::kFloat ? 4 : 1; }
  QuadFinish of(const executable::KernelArgs &args) const noexcept;

 private:
  bool has_[3], isEach_[3];  // bias, scale, y_zero
  QuadResult result_;
};

// IntegerMatMul of 8-bit integers (quad_matmul.cpp).
std::unique_ptr<executable::Kernel> createQuadMatMul(const executable::KernelRequest &request, std::string &reason);
// IntegerConv (integer_conv.cpp), and the layout that its weights must have.
std::unique_ptr<executable::Kernel> createIntegerConv(const executable::KernelRequest &request, std::string &reason);
const executable::Layout *integerConvWeights(const Op &op);

}  // namespace popart::cpu
