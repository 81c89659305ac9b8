// Evaluates single ops on host values at compile time and puts the results in the place of their outputs.
// Variables are never read: their values change. Ops that draw random numbers, have side effects or call graphs stay.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include <popart/op.hpp>

namespace popart {

// Computes the outputs of `op` from the values of its inputs (an empty TensorData for an absent optional input).
// Throws popart::error when it cannot compute this op. The reference backend's `ref::evaluate` is one.
using EvaluateOp = std::function<std::vector<TensorData>(const Op &op, const std::vector<TensorData> &inputs)>;

// Bytes of constants that may be made while a program is read or compiled, beside those that the program brings: a
// model of a hundred bytes can ask for any number of zeros. The environment variable POPART_MAX_FOLDED_BYTES (K, M or G
// at the end for powers of 1024) takes this number's place.
constexpr int64_t kFoldAllowanceBytes = int64_t{64} << 20;
// Of what the program brings, that many times its bytes may be made in addition: a cast or a transpose of every weight.
constexpr int64_t kFoldedPerGivenByte = 2;

// The one budget for constants made at compile time. What does not fit stays an op and is computed at run time, where
// its memory belongs to the plan; what must be known at compile time is refused.
class FoldBudget {
 public:
  // givenBytes: of the program's own constants and weights. Throws popart::error for a bad POPART_MAX_FOLDED_BYTES.
  explicit FoldBudget(int64_t givenBytes = 0);
  // For a graph that was read before: as many bytes as its constants have, or the allowance where that is more.
  explicit FoldBudget(const Graph &graph);

  int64_t leftBytes() const { return leftBytes_; }
  // False, and nothing taken, when there is not that much left.
  bool take(int64_t bytes);
  void giveBack(int64_t bytes) { leftBytes_ += bytes; }  // of constants that are gone

 private:
  int64_t leftBytes_;
};

enum class FoldSize { WithinBudget, Required };

// A Transpose of a constant above this size stays in the graph until lowering: products read their operand in either
// orientation, so that a second copy of a large weight is rarely needed.
constexpr int64_t kFoldTransposeBytes = int64_t{64} << 10;

// True when every input is a Const tensor with a value (or the op reads shapes only) and it is no op that has to stay.
bool isFoldable(const Op &op, FoldSize size = FoldSize::WithinBudget);

// Replaces the outputs of `op` by Const tensors of the same ids and erases the op, if isFoldable, the results fit
// `budget`, and the op can be evaluated. `size` Required: large transposes too. `evaluate` may be empty: then only ops
// that read shapes are folded. Returns whether the op is gone.
bool foldOp(Op &op, const EvaluateOp &evaluate, FoldBudget &budget, FoldSize size = FoldSize::WithinBudget);

// Whether and how an op is to be folded; `folded`: results of ops that were folded before it.
using FoldChoice = std::function<std::optional<FoldSize>(const Op &op, const std::set<TensorIndex> &folded)>;
// Folds what `choose` names, in topological order: an op's inputs have been folded before it is reached. Constants that
// only fed folded ops are erased and give their bytes back. Returns the number of ops folded.
int foldOps(Graph &graph, const EvaluateOp &evaluate, const FoldChoice &choose);

}  // namespace popart
