// listSpareMemory: lists memory of a program that it could do without, because values can be recomputed or kept off
// chip, and the costs. It changes nothing; the caller chooses and passes tensors to recompute (RecomputeRule::Chosen)
// and moveOffChip (OffChip::byTensor).
#pragma once
#include <optional>
#include <set>
#include <vector>

#include <popart/ir.hpp>

#include "transforms/off_chip.hpp"

namespace popart::transforms {

// Memory that one forward op fills and the backward pass reads, or memory of one variable.
struct SpareMemory {
  std::optional<OffChip::Held> variable;  // nullopt: activations
  bool isConstant = false;                // it has to become a variable first
  int64_t bytes = 0;
  // Recomputation, once for each micro-batch: the tensors to choose, and the work, including that for ops before them
  // that are not kept. Empty: not possible.
  std::vector<TensorId> repeated;
  Cost again;
  // Off chip: the tensors to move, and the bytes transferred in each micro-batch and in each update. Empty: not
  // possible.
  std::vector<TensorId> moved;
  int64_t bytesPerMicroBatch = 0, bytesPerUpdate = 0;
};

struct SpareMemoryOptions {
  std::optional<int64_t> firstGradient;  // as in RecomputeOptions; nullopt: there is no backward pass
  TensorId loss;                         // the op that makes it is the last one, whose results are read immediately
  std::set<TensorId> anchors;            // in memory until they are sent, so never listed
  bool accumulates = false;              // an update has several micro-batches
  std::set<TensorId> constants;          // constants that could be variables instead
};

// For the whole program, with its updates and without loops. Not listed: tensors that `offChip` already moves or
// mentions, tensors that are not floating point, results of copies, and constants that other ops than matrix products
// read, because passes fold these. In program order, activations first. O(n log n).
std::vector<SpareMemory> listSpareMemory(Ir &ir, const OffChip &offChip, const SpareMemoryOptions &options);

}  // namespace popart::transforms
