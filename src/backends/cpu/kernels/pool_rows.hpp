// Pooling of plain memory (N, C, spatial…), along the rows of the last dimension: vectors hold neighbouring results.
//
//   rows of a window, stride 2          even columns  x0 x2 x4 …   tap 0 of y0 y1 y2 …, tap 2 from x2 on
//   x0 x1 x2 x3 x4 x5 …         ──▶     odd columns   x1 x3 x5 …   tap 1 of y0 y1 y2 …
//
// Forward, vectors of neighbouring columns go down the rows of a plane: the columns are split in registers, and where
// windows leave the input, masks put neutral values there. A maximum is that of each row's taps, then that of the rows.
// Whether there is a NaN is seen when a column is done; without one an instruction makes the maximum of two.
// For gradients a row that needs padding or has a stride is first staged: each remainder of the column by the stride
// becomes a row of its own, with neutral values around it. Then every tap is a load of neighbours.
// Invariant: taps are combined in the order of memory, as windows.hpp does for channels last, so that both layouts give
// the same bits (the first of several equal maxima is the first of the first row that has it).
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/pool_shape.hpp"

namespace popart::cpu {

class RowPool {
 public:
  // countPadding: averages count the taps in the padding. Of a pool that fits.
  RowPool(const Pool &pool, PoolKind kind, bool countPadding);

  // Whether windows span, and step over, at most 4096 rows and columns: what is kept of each is a vector.
  static bool fits(const Pool &pool);

  // Pieces of about equal work; depends on the shape alone.
  int tasks() const { return tasks_; }
  int64_t scratchBytes() const { return reading_.scratchFloats * static_cast<int64_t>(sizeof(float)); }
  // Maxima: the first NaN wins, -inf without taps. Averages: 0 without taps. Scratch at 64 bytes.
  void run(const float *x, float *y, void *scratch, int task) const noexcept;

  // What the code of an instruction set works with.
  struct Plan {
    Pool pool;
    PoolKind kind = PoolKind::kMaximum;
    bool countPadding = false;
    std::vector<Reach> depths, rows, columns;  // by position in the result
    std::vector<int32_t> depthSlot, rowSlot;   // by position in the input: where a staged row is kept
    std::vector<int64_t> taps;                 // of a row: where each begins in a staged row
    std::vector<float> counts;                 // of each column of the result: taps that an average counts
    int64_t block = 1, blocks = 1, units = 0;  // columns of a unit; units are rows of a block
    int64_t phase = 0, slot = 0, slots = 0;    // floats of a phase and of a staged row; rows that are kept
    int64_t rowsOfWindow = 0;                  // at most
    int64_t padded = 0;                        // floats of a row with its padding
    int64_t scratchBytes = 0;
  };
  // How columns are read.
  struct Reading {
    std::vector<uint8_t> isTap;  // by place in a row of the window, up to a multiple of the stride (up to 4)
    bool bySteps = false;        // maxima of rows first
    int64_t rows = 0;            // of the input, that a column goes down at once; at least those of a window
    int64_t readFloats = 0;      // from the first tap on, by whole vectors
    int64_t scratchFloats = 0;
  };

 private:
  Plan plan_;
  Reading reading_;
  int tasks_ = 1;
};
// mostColumns: of the result, in a unit.
RowPool::Plan planRows(const Pool &pool, PoolKind kind, bool countPadding, int64_t mostColumns);
RowPool::Reading planReading(const RowPool::Plan &plan);

// The gradient: that of a maximum goes to its first tap (the first NaN wins), that of an average to all of its taps.
// Tasks are planes. What a row of dx gets is summed as rows are staged, and brought back into order when no window
// spans the row any more.
class RowPoolGradient {
 public:
  static constexpr int64_t kMostTaps = int64_t{1} << 24;  // of a maximum: their numbers are floats

  // Of a pool that RowPool fits.
  RowPoolGradient(const Pool &pool, PoolKind kind, bool countPadding);
  int tasks() const { return tasks_; }
  int64_t scratchBytes() const { return plan_.rows.scratchBytes + plan_.scratchBytes; }
  // x is read for maxima alone.
  void run(const float *g, const float *x, float *dx, void *scratch, int task) const noexcept;

  struct Plan {
    RowPool::Plan rows;
    std::vector<float> firstTaps;    // of each column of the result: the number of its first tap in the input
    std::vector<int32_t> depthSlot;  // as those of rows, where sums are kept: windows never come back to a row
    std::vector<int32_t> rowSlot;
    int64_t slots = 0, scratchBytes = 0;
  };

 private:
  Plan plan_;
  int tasks_ = 1;
};

}  // namespace popart::cpu
