// listSpareMemory: what a program holds in memory and could do without, because it can be computed again or be kept off
// chip, and what each would cost. It changes nothing; whoever picks hands tensors to recompute (RecomputeRule::Chosen)
// and moveOffChip (OffChip::byTensor).
#pragma once
#include <optional>
#include <set>
#include <vector>

#include <popart/ir.hpp>

#include "transforms/off_chip.hpp"

namespace popart::transforms {

// Memory that one forward op fills and the backward pass reads, or that one variable takes.
struct SpareMemory {
  std::optional<OffChip::Held> variable;  // none: activations
  bool isConstant = false;                // has to become a variable first
  int64_t bytes = 0;
  // Computing again, once for each micro-batch: the tensors to choose, and the work, with that for what leads to them
  // and is not kept. None: cannot be.
  std::vector<TensorId> repeated;
  Cost again;
  // Off chip: the tensors to move, and bytes to and from remote memory in each micro-batch and in each update. None:
  // cannot be.
  std::vector<TensorId> moved;
  int64_t bytesPerMicroBatch = 0, bytesPerUpdate = 0;
};

struct SpareMemoryOptions {
  std::optional<int64_t> firstGradient;  // as RecomputeOptions has it; none: there is no backward pass
  TensorId loss;                         // the op that makes it is the last one: its results are read at once
  std::set<TensorId> anchors;            // in memory until they are sent, so never listed
  bool accumulates = false;              // several micro-batches make one update
  std::set<TensorId> constants;          // that could be variables instead
};

// On the whole program, with its updates and before its loops. Not listed: what `offChip` moves already or says a word
// about, what is not floating point, results of copies, constants that others than matrix products read: passes fold
// those into other values. In program order, activations first. O(n log n).
std::vector<SpareMemory> listSpareMemory(Ir &ir, const OffChip &offChip, const SpareMemoryOptions &options);

}  // namespace popart::transforms
