// Reads the epilogue graph of a FusedMatMul or FusedConv: which of the register epilogues of kernels/epilogue.hpp
// computes it.
#pragma once
#include <optional>
#include <string>

#include <popart/graph.hpp>

#include "backends/cpu/kernels/epilogue.hpp"

namespace popart::cpu {

// A scalar of the epilogue: a constant, or the value of extra operand `operand` when it runs.
struct ScalarSource {
  float value = 0;
  int operand = -1;
  float sign = 1;
  float read(const void *const *extras) const {
    return operand < 0 ? value : sign * *static_cast<const float *>(extras[operand]);
  }
};

// Operand numbers count body inputs after the product (0 = first extra); -1: none. Outputs count body outputs.

// last(activation(alpha·product + bias + residual), other), the steps as in kernels/epilogue.hpp.
struct MatchedEpilogue {
  std::optional<ScalarSource> alpha;
  int bias = -1;
  int residual = -1;
  int other = -1;
  EpilogueStep activation;
  EpilogueStep last;
  int preActivationOutput = -1;
  int output = 0;
  DataType type = DataType::FLOAT;  // of all that it reads and writes

  // The epilogue over the memory of one call: `extras` are the epilogue's operands, `out` the op's results.
  Epilogue bind(const void *const *extras, void *const *out) const;
  // Whether extra operand `operand` may be overwritten by output `result`.
  bool canOverwrite(int operand, int result) const;
};

// The product added to or subtracted from a tensor, as the only result: decay · parameter − rate · product. Plain
// gradient descent, and sums of gradients (a rate of −1).
struct MatchedDescent {
  int parameter = -1;
  ScalarSource rate, decay;
};

// Which logical dimension of the product becomes the kernel's columns: the last, or channels (N, C, spatial…).
enum class RowAxis { Last, Channels };

// nullopt and a reason when the graph computes something else, or not all of its values are of one type, FLOAT or one
// of 16 bits (a descent: FLOAT). `columns`: N of the product.
std::optional<MatchedEpilogue> matchEpilogue(const Graph &body, int64_t columns, std::string &reason,
                                             RowAxis axis = RowAxis::Last);
std::optional<MatchedDescent> matchDescent(const Graph &body, std::string &reason);

}  // namespace popart::cpu
