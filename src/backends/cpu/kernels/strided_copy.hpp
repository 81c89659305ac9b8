// Copies between two regions of memory that have the same shape and different strides: transpositions, slices,
// broadcasts, concatenations. A plan merges contiguous dimensions, turns short contiguous runs into one wider element,
// and chooses one of four inner loops.
// Invariant: a pure copy; every byte of the target region is written exactly once, for any number of tasks.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/transpose.hpp"

namespace popart::cpu {

// One dimension of a copy. Strides are in bytes; `from` of 0 repeats an element, a negative one walks backwards.
struct CopyDim {
  int64_t size = 1, from = 0, to = 0;
};

class StridedCopy {
 public:
  // dims from outer to inner; elements of elementBytes (1, 2, 4, 8 or 16). Offsets are in bytes. Strides `to` are not
  // 0.
  StridedCopy(std::vector<CopyDim> dims, int64_t elementBytes, int64_t fromOffset, int64_t toOffset);

  // Number of pieces of about equal work; depends only on the shape. 0 if there is nothing to copy.
  int64_t tasks() const { return tasks_; }
  // Target and source must not overlap.
  void run(const void *from, void *to, int64_t task) const noexcept;
  // "copy", "fill", "transpose" or "strided copy".
  const char *name() const;

 private:
  // The innermost dimension: contiguous on both sides; one repeated element; contiguous in the target, with the next
  // outer dimension contiguous in the source; or none of these.
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
  Prefetch prefetch_ = Prefetch::kNone;     // for transpositions
  bool isStreamed_ = false;                 // whether stores bypass the caches
  int64_t rowChunk_ = 1, columnChunk_ = 1;  // of one unit
  int64_t rowUnits_ = 0, columnUnits_ = 0, units_ = 0, tasks_ = 0;
};

}  // namespace popart::cpu
