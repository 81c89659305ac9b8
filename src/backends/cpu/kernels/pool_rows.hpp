// Pooling of plain memory (N, C, spatial…), along the rows of the last dimension: vectors hold neighbouring results.
//
//   rows of a window, stride 2          even columns  x0 x2 x4 …   tap 0 of y0 y1 y2 …, tap 2 from x2 on
//   x0 x1 x2 x3 x4 x5 …         ──▶     odd columns   x1 x3 x5 …   tap 1 of y0 y1 y2 …
//
// The forward pass moves a vector of neighbouring columns down the rows of a plane. Columns are split in registers, and
// masks set neutral values where windows leave the input. A maximum is taken over each row's taps, then over the rows.
// Maxima are first computed with one instruction per pair of values, which is correct without NaN; a column with a NaN
// is computed again.
// The gradient first stages a row that has padding or a stride: each remainder of the column by the stride becomes a
// separate row, with neutral values around it. Then every tap is a load of neighbours.
// Invariant: taps are combined in the order of memory, as in windows.hpp for channels last, so that both layouts give
// the same bits (the first of several equal maxima is the first of the first row that has it).
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/pool_shape.hpp"

namespace popart::cpu {

class RowPool {
 public:
  // The pool must satisfy fits(). countPadding: averages count the taps in the padding.
  RowPool(const Pool &pool, PoolKind kind, bool countPadding);

  // Whether windows span, and step over, at most 4096 rows and columns, since a vector of each is kept.
  static bool fits(const Pool &pool);

  // Number of pieces of about equal work; depends only on the shape.
  int tasks() const { return tasks_; }
  int64_t scratchBytes() const { return reading_.scratchFloats * static_cast<int64_t>(sizeof(float)); }
  // Maxima: the first NaN wins, -inf without taps. Averages: 0 without taps. `scratch` is aligned to 64 bytes.
  void run(const float *x, float *y, void *scratch, int task) const noexcept;

  // The plan that the code of each instruction set uses.
  struct Plan {
    Pool pool;
    PoolKind kind = PoolKind::kMaximum;
    bool countPadding = false;
    std::vector<Reach> depths, rows, columns;  // by position in the result
    std::vector<int32_t> depthSlot, rowSlot;   // by position in the input: slot of a staged row
    std::vector<int64_t> taps;                 // by tap of a row: where its elements begin in a staged row
    std::vector<float> counts;                 // by column of the result: taps that an average counts
    int64_t block = 1, blocks = 1, units = 0;  // columns per unit, blocks per row; units are rows of a block
    int64_t phase = 0, slot = 0, slots = 0;    // floats of a phase and of a staged row; number of slots
    int64_t rowsOfWindow = 0;                  // largest number of rows of a window
    int64_t padded = 0;                        // floats of a row with its padding
    int64_t scratchBytes = 0;
  };
  // How the forward pass reads columns.
  struct Reading {
    std::vector<uint8_t> isTap;  // by position in a row of the window, up to a multiple of the stride (up to 4)
    bool bySteps = false;        // whether maxima of rows are computed first
    int64_t rows = 0;            // input rows that a column processes at once; at least those of a window
    int64_t readFloats = 0;      // floats read from the first tap on, in whole vectors
    int64_t scratchFloats = 0;
  };

 private:
  Plan plan_;
  Reading reading_;
  int tasks_ = 1;
};
// mostColumns: largest number of columns of the result per unit.
RowPool::Plan planRows(const Pool &pool, PoolKind kind, bool countPadding, int64_t mostColumns);
RowPool::Reading planReading(const RowPool::Plan &plan);

// The gradient. A maximum passes it to its first tap (the first NaN wins), an average to all of its taps. Tasks are
// planes. Gradients of a row of dx are summed in its staged form, and reordered when no window spans the row any more.
class RowPoolGradient {
 public:
  static constexpr int64_t kMostTaps = int64_t{1} << 24;  // of a maximum, because tap numbers are stored as floats

  // The pool must satisfy RowPool::fits().
  RowPoolGradient(const Pool &pool, PoolKind kind, bool countPadding);
  int tasks() const { return tasks_; }
  int64_t scratchBytes() const { return plan_.rows.scratchBytes + plan_.scratchBytes; }
  // x is only read for maxima.
  void run(const float *g, const float *x, float *dx, void *scratch, int task) const noexcept;

  struct Plan {
    RowPool::Plan rows;
    std::vector<float> firstTaps;  // by column of the result: number of its first tap inside the input
    // Slots of rows of sums; they differ from those of rows, because windows must never return to a row that was
    // written.
    std::vector<int32_t> depthSlot;
    std::vector<int32_t> rowSlot;
    int64_t slots = 0, scratchBytes = 0;
  };

 private:
  Plan plan_;
  int tasks_ = 1;
};

}  // namespace popart::cpu
