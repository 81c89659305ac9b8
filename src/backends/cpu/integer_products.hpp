// What the kernels of integer products share: the stack of matrices, and one table of all of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

struct IntegerProblem {
  int64_t rows, depth, columns;
  std::vector<int64_t> a, b;  // offset, in elements, of each matrix of the stack
};

// Of IntegerMatMul. One right operand for the whole stack: all rows are those of one matrix.
IntegerProblem integerProblem(const executable::KernelRequest &request);

// IntegerMatMul of 8-bit integers (quad_matmul.cpp).
std::unique_ptr<executable::Kernel> createQuadMatMul(const executable::KernelRequest &request, std::string &reason);
// IntegerConv (integer_conv.cpp).
std::unique_ptr<executable::Kernel> createIntegerConv(const executable::KernelRequest &request, std::string &reason);

}  // namespace popart::cpu
