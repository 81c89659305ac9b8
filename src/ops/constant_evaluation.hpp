// Evaluates single ops on host values when a program is compiled, and replaces their outputs by the results.
// Variables are never read, as their values change. Ops that draw random numbers, have side effects or call graphs
// stay.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include <popart/op.hpp>

namespace popart {

// Computes the outputs of `op` from the values of its inputs (an empty TensorData for an absent optional input).
// Throws popart::error when it cannot compute this op. The reference backend's `ref::evaluate` is such a function.
using EvaluateOp = std::function<std::vector<TensorData>(const Op &op, const std::vector<TensorData> &inputs)>;

// The bytes of constants that may be made while a program is read or compiled, in addition to the constants that the
// program brings: a model of a hundred bytes can ask for any number of zeros. The environment variable
// POPART_MAX_FOLDED_BYTES (with K, M or G at the end for powers of 1024) replaces this number.
constexpr int64_t kFoldAllowanceBytes = int64_t{64} << 20;
// For each byte that the program brings, this many more may be made: for a cast and a transpose of every weight.
constexpr int64_t kFoldedPerGivenByte = 2;

// The one budget for constants made at compile time. An op whose result does not fit stays and is computed at run time,
// where its memory is part of the plan; a value that must be known at compile time is then refused.
class FoldBudget {
 public:
  // givenBytes: bytes of the program's constants and weights. Throws popart::error for an invalid
  // POPART_MAX_FOLDED_BYTES.
  explicit FoldBudget(int64_t givenBytes = 0);
  // For a graph that was read earlier: the bytes of its constants, or the allowance if that is more.
  explicit FoldBudget(const Graph &graph);

  int64_t leftBytes() const { return leftBytes_; }
  // Returns false, and takes nothing, when fewer bytes are left.
  bool take(int64_t bytes);
  void giveBack(int64_t bytes) { leftBytes_ += bytes; }  // of constants that were erased

 private:
  int64_t leftBytes_;
};

enum class FoldSize { WithinBudget, Required };

// A Transpose of a constant above this size stays in the graph until lowering: matrix products read their operand in
// either orientation, so a second copy of a large weight is rarely needed.
constexpr int64_t kFoldTransposeBytes = int64_t{64} << 10;

// True when every input is a Const tensor with a value (or the op reads only shapes) and no rule keeps the op.
bool isFoldable(const Op &op, FoldSize size = FoldSize::WithinBudget);

// Replaces the outputs of `op` by Const tensors with the same ids and erases the op, if isFoldable, the results fit
// `budget`, and the op can be evaluated. `size` Required: folds large transposes too. `evaluate` may be empty: then
// only ops that read shapes are folded. Returns whether the op was folded.
bool foldOp(Op &op, const EvaluateOp &evaluate, FoldBudget &budget, FoldSize size = FoldSize::WithinBudget);

// Whether and how to fold an op; `folded`: results of ops that were folded before it.
using FoldChoice = std::function<std::optional<FoldSize>(const Op &op, const std::set<TensorIndex> &folded)>;
// Folds the ops that `choose` selects, in topological order, so that the inputs of an op are folded first. Constants
// that only fed folded ops are erased, and their bytes returned. Returns the number of folded ops.
int foldOps(Graph &graph, const EvaluateOp &evaluate, const FoldChoice &choose);

}  // namespace popart
