// Evaluates single ops on host values at compile time and puts the results in the place of their outputs.
// Variables are never read: their values change. Ops that draw random numbers, have side effects or call graphs stay.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include <popart/op.hpp>

namespace popart {

// Computes the outputs of `op` from the values of its inputs (an empty TensorData for an absent optional input).
// Throws popart::error when it cannot compute this op. The reference backend's `ref::evaluate` is one.
using EvaluateOp = std::function<std::vector<TensorData>(const Op &op, const std::vector<TensorData> &inputs)>;

// Results above this size are not made unless they are no larger than the op's inputs together, or needed at compile
// time.
constexpr int64_t kFoldBudgetBytes = int64_t{64} << 20;
// Never made, whatever asks for it.
constexpr int64_t kFoldLimitBytes = int64_t{2} << 30;

enum class FoldSize { WithinBudget, Required };

// A Transpose of a constant above this size stays in the graph until lowering: products read their operand in either
// orientation, so that a second copy of a large weight is rarely needed.
constexpr int64_t kFoldTransposeBytes = int64_t{64} << 10;

// True when every input is a Const tensor with a value (or the op reads shapes only) and the results fit the size rule.
bool isFoldable(const Op &op, FoldSize size = FoldSize::WithinBudget);

// Replaces the outputs of `op` by Const tensors of the same ids and erases the op, if isFoldable and the op can be
// evaluated. `evaluate` may be empty: then only ops that read shapes are folded. Returns whether the op is gone.
bool foldOp(Op &op, const EvaluateOp &evaluate, FoldSize size = FoldSize::WithinBudget);

}  // namespace popart
