// Copies between two regions of memory that share a shape and differ in strides: transpositions, slices, broadcasts,
// concatenations. A plan merges contiguous dimensions, makes short contiguous runs one wider element, and picks one of
// four inner loops. Invariant: a pure copy; every byte of the target region is written exactly once, whatever the
// number of tasks.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/transpose.hpp"

namespace popart::cpu {

// One dimension of a copy. Strides in bytes; from: 0 repeats an element, negative walks backwards.
struct CopyDim {
  int64_t size = 1, from = 0, to = 0;
};

class StridedCopy {
 public:
  // dims from outer to inner; elements of elementBytes (1, 2, 4, 8 or 16). Offsets in bytes. `to` strides are not 0.
  StridedCopy(std::vector<CopyDim> dims, int64_t elementBytes, int64_t fromOffset, int64_t toOffset);

  // Pieces of about equal work; depends on the shape alone. 0 when there is nothing to copy.
  int64_t tasks() const { return tasks_; }
  // Target and source must not overlap.
  void run(const void *from, void *to, int64_t task) const noexcept;
  // "copy", "fill", "transpose" or "strided copy".
  const char *name() const;

 private:
  // What the innermost dimension is: contiguous on both sides, one element repeated, contiguous on the target side with
  // the dimension before it contiguous on the source side, or neither.
  enum class Inner : uint8_t { kRun, kRepeat, kTranspose, kStrided };
  struct Block {  // rows x columns of one unit
    const char *from;
    char *to;
    int64_t rows, columns;
  };
  void merge(std::vector<CopyDim> dims);
  void chooseInner();
  void chooseTasks();
  void runBlock(const Block &block) const noexcept;
  template <int64_t kBytes>
  void moveElements(const Block &block) const noexcept;

  std::vector<CopyDim> outer_;
  CopyDim row_, column_;  // the two innermost dimensions
  int64_t bytes_, fromOffset_, toOffset_;
  Inner inner_ = Inner::kRun;
  Prefetch prefetch_ = Prefetch::kNone;     // of transpositions
  bool isStreamed_ = false;                 // past the caches
  int64_t rowChunk_ = 1, columnChunk_ = 1;  // of one unit
  int64_t rowUnits_ = 0, columnUnits_ = 0, units_ = 0, tasks_ = 0;
};

}  // namespace popart::cpu
